//! System V and POSIX communication between processes.

use crate::dsl::*;
use crate::sub_table::SubTable;

rows! {
    29 shmget(Int, Size, Flags);
    30 shmat(Int, Addr, Flags) => hook("the guest's memory map is ours"), maps();
    31 shmctl(Int, Int, Select) => sub(SubTable::Shmctl);
    64 semget(Int, Int, Flags);
    65 semop(Int, input(ArgTimes(2, structs::SEMBUF)), Uint) => blocks(NotRestarted);
    66 semctl(Int, Int, Int, Select) => sub(SubTable::Semctl);
    67 shmdt(Addr) => hook("the guest's memory map is ours"), maps();
    68 msgget(Int, Flags);
    69 msgsnd(Int, input(ArgPlus(2, structs::MSG_TYPE)), Size, Flags) => blocks(NoHandler);
    70 msgrcv(Int, output(ArgPlus(2, structs::MSG_TYPE), RetPlus(structs::MSG_TYPE)), Size, Off,
        Flags) => blocks(NoHandler);
    71 msgctl(Int, Int, Select) => sub(SubTable::Msgctl);
    220 semtimedop(Int, input(ArgTimes(2, structs::SEMBUF)), Uint, input_of(structs::TIMESPEC))
        => blocks(NotRestarted);
    240 mq_open(Str, Flags, Mode, input_of(structs::MQ_ATTR)) => fds(Creates);
    241 mq_unlink(Str);
    242 mq_timedsend(Fd, input(arg(2)), Size, Uint, input_of(structs::TIMESPEC))
        => blocks(Handler);
    243 mq_timedreceive(Fd, output(arg(2), Ret), Size, output_of(structs::INT),
        input_of(structs::TIMESPEC)) => blocks(Handler);
    244 mq_notify(Fd, input_of(structs::SIGEVENT));
    245 mq_getsetattr(Fd, input_of(structs::MQ_ATTR), output_of(structs::MQ_ATTR));
    248 add_key(Str, Str, input(arg(3)), Size, Int);
    249 request_key(Str, Str, Str, Int);
    250 keyctl(Int, Hex, Select, Size, Hex) => sub(SubTable::Keyctl);
}
