# gdb's commands for a recording, made known to the gdb that `relive debug` starts.

# A watchpoint on more than gdb's limit would never show: gdb could not compare its values.
set max-value-size 16777216

# Containers of the C++ library are shown as containers, and their methods can be called where the
# compiler left them out, if this machine has that library's own scripts. gdb would load them by
# the path of the library, which here is one in the recording. Whoever has loaded them already
# keeps them. ($_as_string is there where gdb has Python.)
if !$_isvoid($_as_string)
  python
import glob, sys
try:
    sys.path += ['/usr/share/gcc/python'] + sorted(glob.glob('/usr/share/gcc-*/python'))
    from libstdcxx.v6 import register_libstdcxx_printers
    register_libstdcxx_printers(None)
except Exception:
    pass
  end
end

define-prefix relive
document relive
Commands for a recording: relive goto, position, last-write, calls, checkpoint, restart,
checkpoints, delete-checkpoint, snapshots, files.
end

define relive goto
  if $argc != 1 && $argc != 2 && $argc != 4
    echo relive goto start|end|crash|EVENT|EVENT:TICK|tick NUMBER\n
  else
    if $argc == 1
      monitor goto $arg0
    end
    if $argc == 2
      monitor goto $arg0 $arg1
    end
    if $argc == 4
      monitor goto $arg0 $arg1 $arg2 $arg3
    end
    # On the way gdb would have heard of libraries that are loaded there. At the start there is none yet,
    # and the loader's symbols would go.
    if !$_isvoid($_as_string)
      python if "$arg0" != "start": gdb.execute("sharedlibrary")
    end
    # gdb looks at everything anew when the program stops. Forwards, it would first step over a
    # breakpoint where it was.
    monitor announce
    reverse-stepi
  end
end
document relive goto
Go to another place of the recording: start, end, crash, a number of events, tick NUMBER,
EVENT:TICK or the like, as relive position prints it at the end.
end

define relive position
  monitor position
end
document relive position
Where in the recording the program is.
end

define relive last-write
  if $argc != 1
    echo relive last-write EXPRESSION, without blanks\n
  else
    # Go has no sizeof, and Rust's expressions end at no comma.
    set $_relive = &($arg0)
    set $_relive_bytes = $_relive + 1
    eval "set $_relive = %p", $_relive
    eval "set $_relive_bytes = %p", $_relive_bytes
    set $_relive_bytes = $_relive_bytes - $_relive
    eval "eval \"monitor last-write %p %%lu\", $_relive_bytes", $_relive
  end
end
document relive last-write
Who wrote to this expression last, before the present position: relive last-write head->next
end

define relive calls
  if $argc != 1
    echo relive calls FUNCTION\n
  else
    eval "monitor calls %p", &($arg0)
  end
end
document relive calls
The calls of a function in the whole recording, with arguments and results.
end

define relive checkpoint
  monitor checkpoint
end
document relive checkpoint
Keep the present position of the recording, to come back to it with relive restart NUMBER.
end

define relive checkpoints
  monitor checkpoints
end
document relive checkpoints
The positions that are kept by relive checkpoint.
end

define relive restart
  if $argc != 1
    echo relive restart NUMBER\n
  else
    monitor restart $arg0
    monitor announce
    reverse-stepi
  end
end
document relive restart
Go to a position that is kept by relive checkpoint, by its number.
end

define relive delete-checkpoint
  if $argc != 1
    echo relive delete-checkpoint NUMBER\n
  else
    monitor delete-checkpoint $arg0
  end
end
document relive delete-checkpoint
Drop a position that is kept by relive checkpoint, by its number.
end

# gdb's own makes the program fork.
define checkpoint
  monitor checkpoint
end
document checkpoint
Keep the present position of the recording, to come back to it with relive restart NUMBER.
end

# gdb's own would execute the recording instruction by instruction, to write down what it has
# already. (Only a command of Python's can end another one with a message.)
if !$_isvoid($_as_string)
  python
class NoRecord(gdb.Command):
    """Says why gdb's record is not for recordings."""
    def __init__(self):
        super().__init__("relive record", gdb.COMMAND_OBSCURE)
    def invoke(self, words, is_tty):
        raise gdb.GdbError("this is a recording already: reverse-continue and the like work as it is")
NoRecord()
  end
  define hook-record
    relive record
  end
end

define relive snapshots
  monitor snapshots
end
document relive snapshots
The snapshots of the replay that are kept for going back.
end

define relive files
  monitor files
end
document relive files
Files that the recording has copies of.
end
