/* A word that one thread writes and another one reads, handed over by a file of the kernel: each kind has a word of its own. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind { NAMED, TERMINAL, SENT, SPLICED, VECTORS, PAGES, WATCHED, REOPENED, COPIED, INHERITED, KINDS };

static int words[KINDS], ends[KINDS][2], more[2], source;

static void check(int good) {
    if (!good) abort();
}

static void give(enum kind kind) {
    char byte = '\n';
    struct iovec vector = {&byte, 1};
    int to = ends[kind][1];
    if (kind == NAMED) to = open("named", O_WRONLY);
    usleep(1000);
    words[kind] = 7;
    switch (kind) {
    case SPLICED:
        check(write(more[1], &byte, 1) == 1 && splice(more[0], NULL, to, NULL, 1, 0) == 1);
        break;
    case VECTORS: check(pwritev2(to, &vector, 1, -1, 0) == 1); break;
    case PAGES: check(vmsplice(to, &vector, 1, 0) == 1); break;
    case WATCHED:
        to = open("folder/file", O_CREAT | O_WRONLY, 0600);
        usleep(1000);
        check(close(to) == 0);
        break;
    case COPIED: check(sendfile(to, source, NULL, 1) == 1); break;
    default: check(write(to, &byte, 1) == 1);
    }
}

static void *take(void *which) {
    enum kind kind = (enum kind)(long)which;
    char bytes[512], name[64];
    struct iovec vector = {bytes, 1};
    int from = ends[kind][0];
    switch (kind) {
    case NAMED: from = open("named", O_RDONLY); break;
    case REOPENED:
        snprintf(name, sizeof name, "/proc/self/fd/%d", from);
        from = open(name, O_RDONLY);
        break;
    default: break;
    }
    if (kind == VECTORS)
        check(preadv2(from, &vector, 1, -1, 0) == 1);
    else
        check(read(from, bytes, sizeof bytes) > 0);
    check(words[kind] == 7);
    return NULL;
}

static void hand_over(enum kind kind) {
    pthread_t taker;
    check(pthread_create(&taker, NULL, take, (void *)(long)kind) == 0);
    give(kind);
    pthread_join(taker, NULL);
}

static void terminal(void) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    check(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    ends[TERMINAL][0] = open(ptsname(master), O_RDWR | O_NOCTTY);
    ends[TERMINAL][1] = master;
}

static void sent(void) {
    int pair[2], fds[2];
    union {
        char bytes[CMSG_SPACE(sizeof fds)];
        struct cmsghdr header;
    } control = {{0}};
    char byte = 1;
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    check(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 && pipe(fds) == 0);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(header), fds, sizeof fds);
    check(sendmsg(pair[0], &message, 0) == 1 && recvmsg(pair[1], &message, 0) == 1);
    memcpy(ends[SENT], CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fds);
}

int main(void) {
    char folder[] = "/tmp/handed_over_XXXXXX";
    check(mkdtemp(folder) && chdir(folder) == 0);
    check(mkfifo("named", 0600) == 0 && mkdir("folder", 0700) == 0);
    check(pipe(more) == 0);
    source = open("/etc/passwd", O_RDONLY);
    for (int kind = 0; kind < KINDS; kind++)
        if (kind != TERMINAL && kind != SENT && kind != WATCHED) check(pipe(ends[kind]) == 0);
    terminal();
    sent();
    ends[WATCHED][0] = inotify_init();
    check(inotify_add_watch(ends[WATCHED][0], "folder", IN_CREATE) >= 0);
    for (int kind = 0; kind < INHERITED; kind++) hand_over((enum kind)kind);
    pid_t child = fork();
    if (child == 0) {
        hand_over(INHERITED);
        _exit(0);
    }
    int status;
    check(waitpid(child, &status, 0) == child && status == 0);
    unlink("named");
    unlink("folder/file");
    rmdir("folder");
    return chdir("/") || rmdir(folder);
}
