//! setsockopt(2) and getsockopt(2), by level: socket(7), tcp(7), ip(7), ipv6(7), udp(7),
//! netlink(7), packet(7), vsock(7). Options that make the kernel share memory with the program
//! (packet rings, zero-copy receive) are refused in both directions.

use super::request::{Sub, sort};
use crate::dsl::subs;

pub(super) static SORTED: [Sub; COUNT] = sort(&[
    (level(0), ip::ROWS),
    (level(1), socket::ROWS),
    (level(6), tcp::ROWS),
    (level(17), udp::ROWS),
    (level(41), ipv6::ROWS),
    (level(263), packet::ROWS),
    (level(270), netlink::ROWS),
    (level(40), vsock::ROWS),
    (level(255), raw::ROWS),
    (level(58), icmp6::ROWS),
    (level(282), tls::ROWS),
]);

const COUNT: usize = ip::ROWS.len()
    + socket::ROWS.len()
    + tcp::ROWS.len()
    + udp::ROWS.len()
    + ipv6::ROWS.len()
    + packet::ROWS.len()
    + netlink::ROWS.len()
    + vsock::ROWS.len()
    + raw::ROWS.len()
    + icmp6::ROWS.len()
    + tls::ROWS.len();

const fn level(number: u64) -> u64 {
    number << 32
}

/// Options by the names of `<asm-generic/socket.h>`.
mod socket {
    use super::subs;
    use crate::dsl::*;
    use crate::structs::{INT, TIMEVAL};

    subs! {
        1 SO_DEBUG(inout_of(INT));
        2 SO_REUSEADDR(inout_of(INT));
        3 SO_TYPE(output_of(INT));
        4 SO_ERROR(output_of(INT));
        5 SO_DONTROUTE(inout_of(INT));
        6 SO_BROADCAST(inout_of(INT));
        7 SO_SNDBUF(inout_of(INT));
        8 SO_RCVBUF(inout_of(INT));
        9 SO_KEEPALIVE(inout_of(INT));
        10 SO_OOBINLINE(inout_of(INT));
        11 SO_NO_CHECK(inout_of(INT));
        12 SO_PRIORITY(inout_of(INT));
        13 SO_LINGER(inout_of(8));
        14 SO_BSDCOMPAT(inout_of(INT));
        15 SO_REUSEPORT(inout_of(INT));
        16 SO_PASSCRED(inout_of(INT));
        17 SO_PEERCRED(output_of(12));
        18 SO_RCVLOWAT(inout_of(INT));
        19 SO_SNDLOWAT(inout_of(INT));
        20 SO_RCVTIMEO(inout_of(TIMEVAL));
        21 SO_SNDTIMEO(inout_of(TIMEVAL));
        25 SO_BINDTODEVICE(inout_of(16));
        26 SO_ATTACH_FILTER(input_of(16));
        27 SO_DETACH_FILTER(input_of(INT));
        28 SO_PEERNAME(output_of(128));
        29 SO_TIMESTAMP(inout_of(INT));
        30 SO_ACCEPTCONN(output_of(INT));
        31 SO_PEERSEC(output_of(256));
        32 SO_SNDBUFFORCE(input_of(INT));
        33 SO_RCVBUFFORCE(input_of(INT));
        34 SO_PASSSEC(inout_of(INT));
        35 SO_TIMESTAMPNS(inout_of(INT));
        36 SO_MARK(inout_of(INT));
        37 SO_TIMESTAMPING(inout_of(8));
        38 SO_PROTOCOL(output_of(INT));
        39 SO_DOMAIN(output_of(INT));
        40 SO_RXQ_OVFL(inout_of(INT));
        41 SO_WIFI_STATUS(inout_of(INT));
        42 SO_PEEK_OFF(inout_of(INT));
        43 SO_NOFCS(inout_of(INT));
        44 SO_LOCK_FILTER(inout_of(INT));
        45 SO_SELECT_ERR_QUEUE(inout_of(INT));
        46 SO_BUSY_POLL(inout_of(INT));
        47 SO_MAX_PACING_RATE(inout_of(8));
        48 SO_BPF_EXTENSIONS(output_of(INT));
        49 SO_INCOMING_CPU(inout_of(INT));
        51 SO_ATTACH_REUSEPORT_CBPF(input_of(16));
        53 SO_CNX_ADVICE(input_of(INT));
        55 SO_MEMINFO(output_of(36));
        56 SO_INCOMING_NAPI_ID(output_of(INT));
        57 SO_COOKIE(output_of(8));
        59 SO_PEERGROUPS(output_of(256));
        60 SO_ZEROCOPY(inout_of(INT));
        61 SO_TXTIME(inout_of(8));
        62 SO_BINDTOIFINDEX(inout_of(INT));
        63 SO_TIMESTAMP_NEW(inout_of(INT));
        64 SO_TIMESTAMPNS_NEW(inout_of(INT));
        65 SO_TIMESTAMPING_NEW(inout_of(8));
        66 SO_RCVTIMEO_NEW(inout_of(TIMEVAL));
        67 SO_SNDTIMEO_NEW(inout_of(TIMEVAL));
        68 SO_DETACH_REUSEPORT_BPF(input_of(INT));
        69 SO_PREFER_BUSY_POLL(inout_of(INT));
        70 SO_BUSY_POLL_BUDGET(inout_of(INT));
        71 SO_NETNS_COOKIE(output_of(8));
        72 SO_BUF_LOCK(inout_of(INT));
        73 SO_RESERVE_MEM(inout_of(INT));
        74 SO_TXREHASH(inout_of(INT));
        75 SO_RCVMARK(inout_of(INT));
        76 SO_PASSPIDFD(inout_of(INT));
        77 SO_PEERPIDFD(output_of(INT)) => fds(CreatesAt(3));
        82 SO_RCVPRIORITY(inout_of(INT));
        83 SO_PASSRIGHTS(inout_of(INT));
        84 SO_INQ(inout_of(INT));
    }
}

/// Options by the names of `<linux/tcp.h>`.
mod tcp {
    use super::subs;
    use crate::dsl::*;
    use crate::structs::INT;

    subs! {
        1 TCP_NODELAY(inout_of(INT));
        2 TCP_MAXSEG(inout_of(INT));
        3 TCP_CORK(inout_of(INT));
        4 TCP_KEEPIDLE(inout_of(INT));
        5 TCP_KEEPINTVL(inout_of(INT));
        6 TCP_KEEPCNT(inout_of(INT));
        7 TCP_SYNCNT(inout_of(INT));
        8 TCP_LINGER2(inout_of(INT));
        9 TCP_DEFER_ACCEPT(inout_of(INT));
        10 TCP_WINDOW_CLAMP(inout_of(INT));
        11 TCP_INFO(output_of(280));
        12 TCP_QUICKACK(inout_of(INT));
        13 TCP_CONGESTION(inout_of(16));
        14 TCP_MD5SIG(input_of(216));
        16 TCP_THIN_LINEAR_TIMEOUTS(inout_of(INT));
        17 TCP_THIN_DUPACK(inout_of(INT));
        18 TCP_USER_TIMEOUT(inout_of(INT));
        19 TCP_REPAIR(inout_of(INT));
        20 TCP_REPAIR_QUEUE(inout_of(INT));
        21 TCP_QUEUE_SEQ(inout_of(INT));
        22 TCP_REPAIR_OPTIONS(input_of(8));
        23 TCP_FASTOPEN(inout_of(INT));
        24 TCP_TIMESTAMP(inout_of(INT));
        25 TCP_NOTSENT_LOWAT(inout_of(INT));
        26 TCP_CC_INFO(output_of(20));
        27 TCP_SAVE_SYN(inout_of(INT));
        28 TCP_SAVED_SYN(output_of(128));
        29 TCP_REPAIR_WINDOW(inout_of(20));
        30 TCP_FASTOPEN_CONNECT(inout_of(INT));
        31 TCP_ULP(inout_of(16));
        32 TCP_MD5SIG_EXT(input_of(216));
        33 TCP_FASTOPEN_KEY(inout_of(32));
        34 TCP_FASTOPEN_NO_COOKIE(inout_of(INT));
        35 TCP_ZEROCOPY_RECEIVE(Int) => errno(ENOPROTOOPT, "maps the kernel's own pages");
        36 TCP_INQ(inout_of(INT));
        37 TCP_TX_DELAY(inout_of(INT));
        44 TCP_RTO_MAX_MS(inout_of(INT));
        45 TCP_RTO_MIN_US(inout_of(INT));
        46 TCP_DELACK_MAX_US(inout_of(INT));
    }
}

/// Options by the names of `<linux/udp.h>`.
mod udp {
    use super::subs;
    use crate::dsl::*;
    use crate::structs::INT;

    subs! {
        1 UDP_CORK(inout_of(INT));
        100 UDP_ENCAP(inout_of(INT));
        101 UDP_NO_CHECK6_TX(inout_of(INT));
        102 UDP_NO_CHECK6_RX(inout_of(INT));
        103 UDP_SEGMENT(inout_of(INT));
        104 UDP_GRO(inout_of(INT));
    }
}

/// Options by the names of `<linux/in.h>`.
mod ip {
    use super::subs;
    use crate::dsl::*;
    use crate::structs::INT;

    subs! {
        1 IP_TOS(inout_of(INT));
        2 IP_TTL(inout_of(INT));
        3 IP_HDRINCL(inout_of(INT));
        4 IP_OPTIONS(inout_of(40));
        5 IP_ROUTER_ALERT(inout_of(INT));
        6 IP_RECVOPTS(inout_of(INT));
        7 IP_RETOPTS(inout_of(INT));
        8 IP_PKTINFO(inout_of(INT));
        9 IP_PKTOPTIONS(output_of(128));
        10 IP_MTU_DISCOVER(inout_of(INT));
        11 IP_RECVERR(inout_of(INT));
        12 IP_RECVTTL(inout_of(INT));
        13 IP_RECVTOS(inout_of(INT));
        14 IP_MTU(output_of(INT));
        15 IP_FREEBIND(inout_of(INT));
        18 IP_PASSSEC(inout_of(INT));
        19 IP_TRANSPARENT(inout_of(INT));
        20 IP_RECVORIGDSTADDR(inout_of(INT));
        21 IP_MINTTL(inout_of(INT));
        22 IP_NODEFRAG(inout_of(INT));
        23 IP_CHECKSUM(inout_of(INT));
        24 IP_BIND_ADDRESS_NO_PORT(inout_of(INT));
        25 IP_RECVFRAGSIZE(inout_of(INT));
        26 IP_RECVERR_RFC4884(inout_of(INT));
        32 IP_MULTICAST_IF(inout_of(12));
        33 IP_MULTICAST_TTL(inout_of(INT));
        34 IP_MULTICAST_LOOP(inout_of(INT));
        35 IP_ADD_MEMBERSHIP(input_of(12));
        36 IP_DROP_MEMBERSHIP(input_of(12));
        37 IP_UNBLOCK_SOURCE(input_of(12));
        38 IP_BLOCK_SOURCE(input_of(12));
        39 IP_ADD_SOURCE_MEMBERSHIP(input_of(12));
        40 IP_DROP_SOURCE_MEMBERSHIP(input_of(12));
        41 IP_MSFILTER(inout_of(16));
        42 MCAST_JOIN_GROUP(input_of(136));
        43 MCAST_BLOCK_SOURCE(input_of(264));
        44 MCAST_UNBLOCK_SOURCE(input_of(264));
        45 MCAST_LEAVE_GROUP(input_of(136));
        46 MCAST_JOIN_SOURCE_GROUP(input_of(264));
        47 MCAST_LEAVE_SOURCE_GROUP(input_of(264));
        48 MCAST_MSFILTER(inout_of(144));
        49 IP_MULTICAST_ALL(inout_of(INT));
        50 IP_UNICAST_IF(inout_of(INT));
        51 IP_LOCAL_PORT_RANGE(inout_of(INT));
        52 IP_PROTOCOL(output_of(INT));
        80 SO_ORIGINAL_DST(output_of(16));
    }
}

/// Options by the names of `<linux/in6.h>`.
mod ipv6 {
    use super::subs;
    use crate::dsl::*;
    use crate::structs::INT;

    subs! {
        1 IPV6_ADDRFORM(input_of(INT));
        7 IPV6_CHECKSUM(inout_of(INT));
        11 IPV6_FLOWINFO(inout_of(INT));
        16 IPV6_UNICAST_HOPS(inout_of(INT));
        17 IPV6_MULTICAST_IF(inout_of(INT));
        18 IPV6_MULTICAST_HOPS(inout_of(INT));
        19 IPV6_MULTICAST_LOOP(inout_of(INT));
        20 IPV6_ADD_MEMBERSHIP(input_of(20));
        21 IPV6_DROP_MEMBERSHIP(input_of(20));
        22 IPV6_ROUTER_ALERT(inout_of(INT));
        23 IPV6_MTU_DISCOVER(inout_of(INT));
        24 IPV6_MTU(inout_of(INT));
        25 IPV6_RECVERR(inout_of(INT));
        26 IPV6_V6ONLY(inout_of(INT));
        27 IPV6_JOIN_ANYCAST(input_of(20));
        28 IPV6_LEAVE_ANYCAST(input_of(20));
        29 IPV6_MULTICAST_ALL(inout_of(INT));
        31 IPV6_RECVERR_RFC4884(inout_of(INT));
        33 IPV6_FLOWINFO_SEND(inout_of(INT));
        36 IPV6_HDRINCL(inout_of(INT));
        42 MCAST_JOIN_GROUP(input_of(136));
        43 MCAST_BLOCK_SOURCE(input_of(264));
        44 MCAST_UNBLOCK_SOURCE(input_of(264));
        45 MCAST_LEAVE_GROUP(input_of(136));
        46 MCAST_JOIN_SOURCE_GROUP(input_of(264));
        47 MCAST_LEAVE_SOURCE_GROUP(input_of(264));
        48 MCAST_MSFILTER(inout_of(144));
        49 IPV6_RECVPKTINFO(inout_of(INT));
        50 IPV6_PKTINFO(inout_of(20));
        51 IPV6_RECVHOPLIMIT(inout_of(INT));
        53 IPV6_RECVHOPOPTS(inout_of(INT));
        56 IPV6_RECVRTHDR(inout_of(INT));
        58 IPV6_RECVDSTOPTS(inout_of(INT));
        60 IPV6_RECVPATHMTU(inout_of(INT));
        61 IPV6_PATHMTU(output_of(32));
        62 IPV6_DONTFRAG(inout_of(INT));
        66 IPV6_RECVTCLASS(inout_of(INT));
        67 IPV6_TCLASS(inout_of(INT));
        70 IPV6_AUTOFLOWLABEL(inout_of(INT));
        72 IPV6_ADDR_PREFERENCES(inout_of(INT));
        73 IPV6_MINHOPCOUNT(inout_of(INT));
        74 IPV6_RECVORIGDSTADDR(inout_of(INT));
        75 IPV6_TRANSPARENT(inout_of(INT));
        76 IPV6_UNICAST_IF(inout_of(INT));
        77 IPV6_RECVFRAGSIZE(inout_of(INT));
        78 IPV6_FREEBIND(inout_of(INT));
        80 IP6T_SO_ORIGINAL_DST(output_of(28));
    }
}

/// Options by the names of `<linux/if_packet.h>`.
mod packet {
    use super::subs;
    use crate::dsl::*;
    use crate::structs::INT;

    subs! {
        1 PACKET_ADD_MEMBERSHIP(input_of(16));
        2 PACKET_DROP_MEMBERSHIP(input_of(16));
        5 PACKET_RX_RING(Int) => errno(ENOPROTOOPT, "memory that the kernel writes at any time");
        6 PACKET_STATISTICS(output_of(12));
        8 PACKET_AUXDATA(inout_of(INT));
        9 PACKET_ORIGDEV(inout_of(INT));
        13 PACKET_TX_RING(Int) => errno(ENOPROTOOPT, "memory that the kernel writes at any time");
        18 PACKET_FANOUT(inout_of(INT));
        20 PACKET_QDISC_BYPASS(inout_of(INT));
        23 PACKET_IGNORE_OUTGOING(inout_of(INT));
    }
}

/// Options by the names of `<linux/netlink.h>`.
mod netlink {
    use super::subs;
    use crate::dsl::*;
    use crate::structs::INT;

    subs! {
        1 NETLINK_ADD_MEMBERSHIP(input_of(INT));
        2 NETLINK_DROP_MEMBERSHIP(input_of(INT));
        3 NETLINK_PKTINFO(inout_of(INT));
        4 NETLINK_BROADCAST_ERROR(inout_of(INT));
        5 NETLINK_NO_ENOBUFS(inout_of(INT));
        8 NETLINK_LISTEN_ALL_NSID(inout_of(INT));
        9 NETLINK_LIST_MEMBERSHIPS(output_of(INT));
        10 NETLINK_CAP_ACK(inout_of(INT));
        11 NETLINK_EXT_ACK(inout_of(INT));
        12 NETLINK_GET_STRICT_CHK(inout_of(INT));
    }
}

/// Options by the names of `<linux/vm_sockets.h>`.
mod vsock {
    use super::subs;
    use crate::dsl::*;
    use crate::structs::TIMEVAL;

    subs! {
        0 SO_VM_SOCKETS_BUFFER_SIZE(inout_of(8));
        1 SO_VM_SOCKETS_BUFFER_MIN_SIZE(inout_of(8));
        2 SO_VM_SOCKETS_BUFFER_MAX_SIZE(inout_of(8));
        6 SO_VM_SOCKETS_CONNECT_TIMEOUT_OLD(inout_of(TIMEVAL));
        8 SO_VM_SOCKETS_CONNECT_TIMEOUT_NEW(inout_of(TIMEVAL));
    }
}

/// Options of raw sockets by the names of `<linux/icmp.h>` and `<linux/in6.h>`.
mod raw {
    use super::subs;
    use crate::dsl::*;
    use crate::structs::INT;

    subs! {
        1 ICMP_FILTER(inout_of(INT));
        7 IPV6_CHECKSUM(inout_of(INT));
        36 IPV6_HDRINCL(inout_of(INT));
    }
}

/// Options by the names of `<linux/icmpv6.h>`.
mod icmp6 {
    use super::subs;
    use crate::dsl::*;

    subs! {
        1 ICMPV6_FILTER(inout_of(32));
    }
}

/// Options by the names of `<linux/tls.h>`: the kernel encrypts, and the program's calls stay as they are.
mod tls {
    use super::subs;
    use crate::dsl::*;
    use crate::structs::INT;

    subs! {
        1 TLS_TX(inout_of(56));
        2 TLS_RX(inout_of(56));
        3 TLS_TX_ZEROCOPY_RO(inout_of(INT));
        4 TLS_RX_EXPECT_NO_PAD(inout_of(INT));
    }
}
