//! Names: opening, creating, linking, removing, the working folder.

use crate::dsl::*;

rows! {
    2 open(Str, Flags, Mode) => blocks(Handler), fds(opens(0, In(1)));
    21 access(Str, Int);
    76 truncate(Str, Off) => changes(SizeOfNamed(0));
    79 getcwd(output(arg(1), Ret), Size);
    80 chdir(Str);
    81 fchdir(Fd);
    82 rename(Str, Str);
    83 mkdir(Str, Mode);
    84 rmdir(Str);
    85 creat(Str, Mode) => blocks(Handler), fds(opens(0, Create));
    86 link(Str, Str);
    87 unlink(Str);
    88 symlink(Str, Str);
    89 readlink(Str, output(arg(2), Ret), Int);
    133 mknod(Str, Mode, Hex);
    161 chroot(Str) => note("the host opens what it will need before");
    257 openat(DirFd, Str, Flags, Mode) => blocks(Handler), fds(opens(1, In(2)));
    258 mkdirat(DirFd, Str, Mode);
    259 mknodat(DirFd, Str, Mode, Hex);
    263 unlinkat(DirFd, Str, Flags);
    264 renameat(DirFd, Str, DirFd, Str);
    265 linkat(DirFd, Str, DirFd, Str, Flags);
    266 symlinkat(Str, DirFd, Str);
    267 readlinkat(DirFd, Str, output(arg(3), Ret), Int);
    269 faccessat(DirFd, Str, Int);
    303 name_to_handle_at(DirFd, Str, always(inout(Special(FileHandle(2)))),
        always(output(Special(MountId(4)), Special(MountId(4)))), Flags)
        => note("a handle too small for the answer learns the size it should have");
    304 open_by_handle_at(DirFd, input(Special(FileHandle(1))), Flags)
        => blocks(Handler), fds(opens_unnamed(In(2)));
    316 renameat2(DirFd, Str, DirFd, Str, Flags);
    437 openat2(DirFd, Str, input(arg(3)), Size) => blocks(Handler), fds(opens(1, Behind(2)));
    439 faccessat2(DirFd, Str, Int, Flags);
}
