//! shmctl(2), semctl(2) and msgctl(2): commands on System V shared memory, semaphores and
//! message queues.

pub(super) use msgctl::SORTED as MSGCTL_SORTED;
pub(super) use semctl::SORTED as SEMCTL_SORTED;
pub(super) use shmctl::SORTED as SHMCTL_SORTED;

mod shmctl {
    use crate::dsl::*;
    use crate::structs::{SHM_INFO, SHMID_DS, SHMINFO};
    use crate::sub::request::{Sub, sort};

    pub(in crate::sub) static SORTED: [Sub; ROWS.len()] = sort(&[(0, ROWS)]);

    subs! {
        0 IPC_RMID(Unused);
        1 IPC_SET(input_of(SHMID_DS));
        2 IPC_STAT(output_of(SHMID_DS));
        3 IPC_INFO(output_of(SHMINFO));
        11 SHM_LOCK(Unused);
        12 SHM_UNLOCK(Unused);
        13 SHM_STAT(output_of(SHMID_DS));
        14 SHM_INFO(output_of(SHM_INFO));
        15 SHM_STAT_ANY(output_of(SHMID_DS));
    }
}

mod semctl {
    use crate::dsl::*;
    use crate::structs::{SEMID_DS, SEMINFO};
    use crate::sub::request::{Sub, sort};

    pub(in crate::sub) static SORTED: [Sub; ROWS.len()] = sort(&[(0, ROWS)]);

    subs! {
        0 IPC_RMID(Unused);
        1 IPC_SET(input_of(SEMID_DS));
        2 IPC_STAT(output_of(SEMID_DS));
        3 IPC_INFO(output_of(SEMINFO));
        11 GETPID(Unused);
        12 GETVAL(Unused);
        13 GETALL(Int) => hook("the length of the answer is nowhere in the call");
        14 GETNCNT(Unused);
        15 GETZCNT(Unused);
        16 SETVAL(Int);
        17 SETALL(Int);
        18 SEM_STAT(output_of(SEMID_DS));
        19 SEM_INFO(output_of(SEMINFO));
        20 SEM_STAT_ANY(output_of(SEMID_DS));
    }
}

mod msgctl {
    use crate::dsl::*;
    use crate::structs::{MSGINFO, MSQID_DS};
    use crate::sub::request::{Sub, sort};

    pub(in crate::sub) static SORTED: [Sub; ROWS.len()] = sort(&[(0, ROWS)]);

    subs! {
        0 IPC_RMID(Unused);
        1 IPC_SET(input_of(MSQID_DS));
        2 IPC_STAT(output_of(MSQID_DS));
        3 IPC_INFO(output_of(MSGINFO));
        11 MSG_STAT(output_of(MSQID_DS));
        12 MSG_INFO(output_of(MSGINFO));
        13 MSG_STAT_ANY(output_of(MSQID_DS));
    }
}
