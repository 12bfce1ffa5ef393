//! ioctl(2): terminals, sockets, files and block devices. See ioctl_tty(2), netdevice(7),
//! `<asm-generic/ioctls.h>`, `<linux/sockios.h>`, `<linux/fs.h>`.

use super::request::{Sub, sort};
use crate::dsl::subs;

pub(super) static SORTED: [Sub; COUNT] = sort(&[
    (0, terminal::ROWS),
    (0, console::ROWS),
    (0, any_file::ROWS),
    (0, file_system::ROWS),
    (0, block::ROWS),
    (0, socket::ROWS),
    (0, tunnel::ROWS),
]);

const COUNT: usize = terminal::ROWS.len()
    + console::ROWS.len()
    + any_file::ROWS.len()
    + file_system::ROWS.len()
    + block::ROWS.len()
    + socket::ROWS.len()
    + tunnel::ROWS.len();

mod terminal {
    use super::subs;
    use crate::dsl::*;
    use crate::structs::{INT, SERIAL_ICOUNTER, SERIAL_STRUCT, TERMIO, TERMIOS, TERMIOS2, WINSIZE};

    subs! {
        0x5401 TCGETS(output_of(TERMIOS));
        0x5402 TCSETS(input_of(TERMIOS)) => blocks(Handler);
        0x5403 TCSETSW(input_of(TERMIOS)) => blocks(Handler);
        0x5404 TCSETSF(input_of(TERMIOS)) => blocks(Handler);
        0x5405 TCGETA(output_of(TERMIO));
        0x5406 TCSETA(input_of(TERMIO)) => blocks(Handler);
        0x5407 TCSETAW(input_of(TERMIO)) => blocks(Handler);
        0x5408 TCSETAF(input_of(TERMIO)) => blocks(Handler);
        0x5409 TCSBRK(Int) => blocks(Handler);
        0x540a TCXONC(Int) => blocks(Handler);
        0x540b TCFLSH(Int) => blocks(Handler);
        0x540c TIOCEXCL(Unused);
        0x540d TIOCNXCL(Unused);
        0x540e TIOCSCTTY(Int);
        0x540f TIOCGPGRP(output_of(INT));
        0x5410 TIOCSPGRP(input_of(INT)) => blocks(Handler);
        0x5411 TIOCOUTQ(output_of(INT));
        0x5412 TIOCSTI(input_of(1)) => errno(EIO, "typing for another program");
        0x5413 TIOCGWINSZ(output_of(WINSIZE));
        0x5414 TIOCSWINSZ(input_of(WINSIZE));
        0x5415 TIOCMGET(output_of(INT));
        0x5416 TIOCMBIS(input_of(INT));
        0x5417 TIOCMBIC(input_of(INT));
        0x5418 TIOCMSET(input_of(INT));
        0x5419 TIOCGSOFTCAR(output_of(INT));
        0x541a TIOCSSOFTCAR(input_of(INT));
        0x541d TIOCCONS(Unused);
        0x541e TIOCGSERIAL(output_of(SERIAL_STRUCT));
        0x541f TIOCSSERIAL(input_of(SERIAL_STRUCT));
        0x5420 TIOCPKT(input_of(INT));
        0x5422 TIOCNOTTY(Unused);
        0x5423 TIOCSETD(input_of(INT)) => blocks(Handler);
        0x5424 TIOCGETD(output_of(INT));
        0x5425 TCSBRKP(Int) => blocks(Handler);
        0x5427 TIOCSBRK(Unused) => blocks(Handler);
        0x5428 TIOCCBRK(Unused) => blocks(Handler);
        0x5429 TIOCGSID(output_of(INT));
        0x5437 TIOCVHANGUP(Unused);
        0x5441 TIOCGPTPEER(Int) => fds(Finds);
        0x5456 TIOCGLCKTRMIOS(output_of(TERMIOS));
        0x5457 TIOCSLCKTRMIOS(input_of(TERMIOS));
        0x5459 TIOCSERGETLSR(output_of(INT));
        0x545c TIOCMIWAIT(Int) => blocks(Handler);
        0x545d TIOCGICOUNT(output_of(SERIAL_ICOUNTER));
        0x80045430 TIOCGPTN(output_of(INT));
        0x80045432 TIOCGDEV(output_of(INT));
        0x80045438 TIOCGPKT(output_of(INT));
        0x80045439 TIOCGPTLCK(output_of(INT));
        0x80045440 TIOCGEXCL(output_of(INT));
        0x802c542a TCGETS2(output_of(TERMIOS2));
        0x40045431 TIOCSPTLCK(input_of(INT));
        0x40045436 TIOCSIG(Int);
        0x402c542b TCSETS2(input_of(TERMIOS2)) => blocks(Handler);
        0x402c542c TCSETSW2(input_of(TERMIOS2)) => blocks(Handler);
        0x402c542d TCSETSF2(input_of(TERMIOS2)) => blocks(Handler);
    }
}

mod console {
    use super::subs;
    use crate::dsl::*;
    use crate::structs::INT;

    // ioctl_console(2), `<linux/kd.h>`, `<linux/vt.h>`. `struct vt_mode` has 8 bytes, `struct vt_stat`
    // and `struct vt_sizes` have 6.
    subs! {
        0x4b2f KIOCSOUND(Int);
        0x4b30 KDMKTONE(Int);
        0x4b31 KDGETLED(output_of(1));
        0x4b32 KDSETLED(Int);
        0x4b33 KDGKBTYPE(output_of(1));
        0x4b3a KDSETMODE(Int);
        0x4b3b KDGETMODE(output_of(INT));
        0x4b44 KDGKBMODE(output_of(INT));
        0x4b45 KDSKBMODE(Int);
        0x4b62 KDGKBMETA(output_of(INT));
        0x4b63 KDSKBMETA(Int);
        0x4b64 KDGKBLED(output_of(1));
        0x4b65 KDSKBLED(Int);
        0x5600 VT_OPENQRY(output_of(INT));
        0x5601 VT_GETMODE(output_of(8));
        0x5602 VT_SETMODE(input_of(8));
        0x5603 VT_GETSTATE(output_of(6));
        0x5605 VT_RELDISP(Int);
        0x5606 VT_ACTIVATE(Int);
        0x5607 VT_WAITACTIVE(Int) => blocks(Handler);
        0x5608 VT_DISALLOCATE(Int);
        0x5609 VT_RESIZE(input_of(6));
    }
}

mod tunnel {
    use super::subs;
    use crate::dsl::*;
    use crate::structs::{IFREQ, INT};

    // `<linux/if_tun.h>`. Those that set a number and not a pointer are declared `int` all the
    // same.
    subs! {
        0x400454c8 TUNSETNOCSUM(Int);
        0x400454c9 TUNSETDEBUG(Int);
        0x400454ca TUNSETIFF(inout_of(IFREQ));
        0x400454cb TUNSETPERSIST(Int);
        0x400454cc TUNSETOWNER(Int);
        0x400454cd TUNSETLINK(Int);
        0x400454ce TUNSETGROUP(Int);
        0x400454d0 TUNSETOFFLOAD(Int);
        0x400454d4 TUNSETSNDBUF(input_of(INT));
        0x400454d8 TUNSETVNETHDRSZ(input_of(INT));
        0x400454d9 TUNSETQUEUE(input_of(IFREQ));
        0x800454cf TUNGETFEATURES(output_of(INT));
        0x800454d2 TUNGETIFF(output_of(IFREQ));
        0x800454d3 TUNGETSNDBUF(output_of(INT));
        0x800454d7 TUNGETVNETHDRSZ(output_of(INT));
    }
}

mod any_file {
    use super::subs;
    use crate::dsl::*;
    use crate::structs::INT;

    subs! {
        0x541b FIONREAD(output_of(INT));
        0x5421 FIONBIO(input_of(INT));
        0x5450 FIONCLEX(Unused);
        0x5451 FIOCLEX(Unused);
        0x5452 FIOASYNC(input_of(INT));
        0x5460 FIOQSIZE(output_of(8));
        0x40044900 INOTIFY_IOC_SETNEXTWD(Int);
        0x40085400 TFD_IOC_SET_TICKS(input_of(8));
        0x40088a01 EPIOCSPARAMS(input_of(8));
        0x80088a02 EPIOCGPARAMS(output_of(8));
        0x80045200 RNDGETENTCNT(output_of(INT));
        // Of descriptors of processes. The structure has grown, and its size is in the request.
        0xff01 PIDFD_GET_CGROUP_NAMESPACE(Unused) => fds(Creates);
        0xff02 PIDFD_GET_IPC_NAMESPACE(Unused) => fds(Creates);
        0xff03 PIDFD_GET_MNT_NAMESPACE(Unused) => fds(Creates);
        0xff04 PIDFD_GET_NET_NAMESPACE(Unused) => fds(Creates);
        0xff05 PIDFD_GET_PID_NAMESPACE(Unused) => fds(Creates);
        0xff06 PIDFD_GET_PID_FOR_CHILDREN_NAMESPACE(Unused) => fds(Creates);
        0xff07 PIDFD_GET_TIME_NAMESPACE(Unused) => fds(Creates);
        0xff08 PIDFD_GET_TIME_FOR_CHILDREN_NAMESPACE(Unused) => fds(Creates);
        0xff09 PIDFD_GET_USER_NAMESPACE(Unused) => fds(Creates);
        0xff0a PIDFD_GET_UTS_NAMESPACE(Unused) => fds(Creates);
        0xc040ff0b PIDFD_GET_INFO(inout_of(64));
        0xc048ff0b PIDFD_GET_INFO_72(inout_of(72));
        0xc050ff0b PIDFD_GET_INFO_80(inout_of(80));
        0xb701 NS_GET_USERNS(Unused) => fds(Creates);
        0xb702 NS_GET_PARENT(Unused) => fds(Creates);
        0xb703 NS_GET_NSTYPE(Unused);
        0xb704 NS_GET_OWNER_UID(output_of(INT));
    }
}

mod file_system {
    use super::subs;
    use crate::dsl::*;
    use crate::structs::{FILE_CLONE_RANGE, FSLABEL, FSTRIM_RANGE, FSXATTR, INT};

    // The get and set requests for flags and version are declared with `long`; the kernel moves an
    // `int`.
    subs! {
        0x1 FIBMAP(always(inout_of(INT)));
        0x2 FIGETBSZ(output_of(INT));
        0x40049409 FICLONE(Fd) => changes(All(0));
        0x4020940d FICLONERANGE(input_of(FILE_CLONE_RANGE)) => changes(All(0)), holds(Word(2, 0));
        0xc0189436 FIDEDUPERANGE(inout(Special(Targets(2)))) => holds(HoldsTargets(2));
        0xc020660b FS_IOC_FIEMAP(inout_part(Special(Extents(2)), Special(ExtentsFound(2))));
        0x80086601 FS_IOC_GETFLAGS(output_of(INT));
        0x40086602 FS_IOC_SETFLAGS(input_of(INT));
        0x80087601 FS_IOC_GETVERSION(output_of(INT));
        0x40087602 FS_IOC_SETVERSION(input_of(INT));
        0x801c581f FS_IOC_FSGETXATTR(output_of(FSXATTR));
        0x401c5820 FS_IOC_FSSETXATTR(input_of(FSXATTR));
        0x81009431 FS_IOC_GETFSLABEL(output_of(FSLABEL));
        0x41009432 FS_IOC_SETFSLABEL(input_of(FSLABEL));
        0xc0185879 FITRIM(inout_of(FSTRIM_RANGE));
    }
}

mod block {
    use super::subs;
    use crate::dsl::*;
    use crate::structs::{HD_GEOMETRY, INT, LONG};

    subs! {
        0x301 HDIO_GETGEO(output_of(HD_GEOMETRY));
        0x125d BLKROSET(input_of(INT));
        0x125e BLKROGET(output_of(INT));
        0x125f BLKRRPART(Unused);
        0x1260 BLKGETSIZE(output_of(LONG));
        0x1261 BLKFLSBUF(Unused);
        0x1262 BLKRASET(Int);
        0x1263 BLKRAGET(output_of(LONG));
        0x1267 BLKSECTGET(output_of(2));
        0x1268 BLKSSZGET(output_of(INT));
        0x1277 BLKDISCARD(input_of(16));
        0x1278 BLKIOMIN(output_of(INT));
        0x1279 BLKIOOPT(output_of(INT));
        0x127a BLKALIGNOFF(output_of(INT));
        0x127b BLKPBSZGET(output_of(INT));
        0x127c BLKDISCARDZEROES(output_of(INT));
        0x127d BLKSECDISCARD(input_of(16));
        0x127e BLKROTATIONAL(output_of(2));
        0x127f BLKZEROOUT(input_of(16));
        0x40081271 BLKBSZSET(input_of(INT));
        0x80081270 BLKBSZGET(output_of(INT));
        0x80081272 BLKGETSIZE64(output_of(8));
        0x80081280 BLKGETDISKSEQ(output_of(8));
    }
}

mod socket {
    use super::subs;
    use crate::arg::Arg;
    use crate::dsl::*;
    use crate::structs::{ARPREQ, IFREQ, INT, RTENTRY, TIMESPEC, TIMEVAL};

    // Some of the requests that set a structure copy it back as well.
    subs! {
        0x8901 FIOSETOWN(input_of(INT));
        0x8902 SIOCSPGRP(input_of(INT));
        0x8903 FIOGETOWN(output_of(INT));
        0x8904 SIOCGPGRP(output_of(INT));
        0x8905 SIOCATMARK(output_of(INT));
        0x8906 SIOCGSTAMP(output_of(TIMEVAL));
        0x8907 SIOCGSTAMPNS(output_of(TIMESPEC));
        0x80108906 SIOCGSTAMP_NEW(output_of(TIMEVAL));
        0x80108907 SIOCGSTAMPNS_NEW(output_of(TIMESPEC));
        0x890b SIOCADDRT(input_of(RTENTRY));
        0x890c SIOCDELRT(input_of(RTENTRY));
        0x8910 SIOCGIFNAME(inout_of(IFREQ));
        0x8912 SIOCGIFCONF(Arg::LengthAndBuffer);
        0x8913 SIOCGIFFLAGS(inout_of(IFREQ));
        0x8914 SIOCSIFFLAGS(inout_of(IFREQ));
        0x8915 SIOCGIFADDR(inout_of(IFREQ));
        0x8916 SIOCSIFADDR(inout_of(IFREQ));
        0x8917 SIOCGIFDSTADDR(inout_of(IFREQ));
        0x8918 SIOCSIFDSTADDR(inout_of(IFREQ));
        0x8919 SIOCGIFBRDADDR(inout_of(IFREQ));
        0x891a SIOCSIFBRDADDR(inout_of(IFREQ));
        0x891b SIOCGIFNETMASK(inout_of(IFREQ));
        0x891c SIOCSIFNETMASK(inout_of(IFREQ));
        0x891d SIOCGIFMETRIC(inout_of(IFREQ));
        0x891e SIOCSIFMETRIC(inout_of(IFREQ));
        0x8921 SIOCGIFMTU(inout_of(IFREQ));
        0x8922 SIOCSIFMTU(inout_of(IFREQ));
        0x8923 SIOCSIFNAME(inout_of(IFREQ));
        0x8924 SIOCSIFHWADDR(inout_of(IFREQ));
        0x8927 SIOCGIFHWADDR(inout_of(IFREQ));
        0x8933 SIOCGIFINDEX(inout_of(IFREQ));
        0x8942 SIOCGIFTXQLEN(inout_of(IFREQ));
        0x8943 SIOCSIFTXQLEN(inout_of(IFREQ));
        0x8946 SIOCETHTOOL(Int) => errno(EOPNOTSUPP, "answers into a structure of its own");
        0x894b SIOCOUTQNSD(output_of(INT));
        0x894c SIOCGSKNS(Unused) => fds(Creates);
        0x8953 SIOCDARP(input_of(ARPREQ));
        0x8954 SIOCGARP(inout_of(ARPREQ));
        0x8955 SIOCSARP(input_of(ARPREQ));
        0x8970 SIOCGIFMAP(inout_of(IFREQ));
        0x07b9 IOCTL_VM_SOCKETS_GET_LOCAL_CID(output_of(INT));
        0x89e0 SIOCUNIXFILE(Unused) => fds(Creates);
        0x89a0 SIOCBRADDBR(input_of(16));
        0x89a1 SIOCBRDELBR(input_of(16));
        0x89a2 SIOCBRADDIF(inout_of(IFREQ));
        0x89a3 SIOCBRDELIF(inout_of(IFREQ));
    }
}
