# gdb's commands for a recording, made known to the gdb that `relive debug` starts.

define-prefix relive
document relive
Commands for a recording: relive goto, position, last-write, calls, snapshots, files.
end

define relive goto
  if $argc == 2
    monitor goto $arg0 $arg1
  else
    monitor goto $arg0
  end
  # gdb looks at everything anew when the program stops. Forwards, it would first step over a
  # breakpoint where it was.
  monitor announce
  reverse-stepi
end
document relive goto
Go to another place of the recording: start, end, crash, a number of events, or tick NUMBER.
end

define relive position
  monitor position
end
document relive position
Where in the recording the program is.
end

define relive last-write
  eval "monitor last-write %p %lu", &($arg0), sizeof($arg0)
end
document relive last-write
Who wrote to this expression last, before the present position: relive last-write head->next
end

define relive calls
  eval "monitor calls %p", &($arg0)
end
document relive calls
The calls of a function in the whole recording, with arguments and results.
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
