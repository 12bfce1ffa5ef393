//! The memory map, and advice about it.

use crate::dsl::*;

rows! {
    9 mmap(Addr, Size, Flags, Flags, Fd, Off) => hook("the guest's map is ours"), maps();
    10 mprotect(Addr, Size, Flags) => redo(), shares();
    11 munmap(Addr, Size) => redo(), maps();
    12 brk(Addr) => hook("the guest has a break of its own"), maps();
    25 mremap(Addr, Size, Size, Flags, Addr) => redo(), maps();
    26 msync(Addr, Size, Flags);
    27 mincore(Addr, Size, output(Special(Pages(1)), Special(Pages(1))));
    28 madvise(Addr, Size, Int) => redo(), shares();
    149 mlock(Addr, Size) => hook("locked memory cannot be dropped"), shares();
    150 munlock(Addr, Size) => hook("goes with mlock"), shares();
    151 mlockall(Flags) => hook("would lock the host's memory too"), shares();
    152 munlockall() => hook("goes with mlockall"), shares();
    216 remap_file_pages(Addr, Size, Flags, Size, Flags) => enosys("deprecated since Linux 3.16");
    237 mbind(Addr, Size, Int, input(Special(NodeMask(4))), Size, Flags);
    238 set_mempolicy(Int, input(Special(NodeMask(2))), Size);
    239 get_mempolicy(output_of(structs::INT),
        output(Special(NodeMask(2)), Special(NodeMask(2))), Size, Addr, Flags);
    256 migrate_pages(Pid, Size, input(Special(NodeMask(1))), input(Special(NodeMask(1))));
    279 move_pages(Pid, Size, input(ArgTimes(1, structs::LONG)), input(ArgTimes(1, structs::INT)),
        always(output(ArgTimes(1, structs::INT), ArgTimes(1, structs::INT))), Flags);
    310 process_vm_readv(Pid, scatter(2), Size, Addr, Size, Flags);
    311 process_vm_writev(Pid, gather(2), Size, Addr, Size, Flags)
        => hook("to the caller's own memory; another's would be written behind its tape");
    323 userfaultfd(Flags) => enosys("pages would come from outside the tape");
    325 mlock2(Addr, Size, Flags) => hook("goes with mlock"), shares();
    329 pkey_mprotect(Addr, Size, Flags, Int)
        => hook("as on a processor without protection keys: mprotect, or EINVAL for a key"), redo(), shares();
    330 pkey_alloc(Flags, Flags) => errno(EINVAL, "as on a processor without protection keys");
    331 pkey_free(Int) => errno(EINVAL, "as on a processor without protection keys");
    440 process_madvise(Fd, Addr, Size, Int, Flags)
        => hook("only advice that keeps contents");
    447 memfd_secret(Flags) => enosys("memory that the recorder could not read");
    448 process_mrelease(Fd, Flags);
    450 set_mempolicy_home_node(Addr, Size, Size, Flags);
    453 map_shadow_stack(Addr, Size, Flags) => enosys("shadow stacks are hidden");
    462 mseal(Addr, Size, Flags) => enosys("a sealed map could not be replayed");
}
