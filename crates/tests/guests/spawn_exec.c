// relive: args="first" sketch=yes parallel=refused
// posix_spawn, vfork and execve: existing and missing programs, arguments with odd bytes,
// environment, close-on-exec, a script with #!, and exec from a thread.
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/stat.h>

extern char **environ;
static char *self;

static void *exec_from_thread(void *arg) {
    char *args[] = {self, "odd", "a b", "\xff\x01", "", "line\nend", NULL};
    char *env[] = {"ONLY=this", "EMPTY=", NULL};
    (void)arg;
    execve("/proc/self/exe", args, env);
    CHECK(0);
    return NULL;
}

int main(int argc, char **argv) {
    self = argv[0];
    if (strcmp(argv[1], "odd") == 0) {
        CHECK(argc == 6 && strcmp(argv[2], "a b") == 0 && strcmp(argv[3], "\xff\x01") == 0);
        CHECK(argv[4][0] == 0 && strcmp(argv[5], "line\nend") == 0 && argv[6] == NULL);
        CHECK(strcmp(environ[0], "ONLY=this") == 0 && strcmp(environ[1], "EMPTY=") == 0 && environ[2] == NULL);
        CHECK(getenv("PATH") == NULL);
        return 21;
    }
    if (strcmp(argv[1], "descriptors") == 0) {
        CHECK(fcntl(atoi(argv[2]), F_GETFD) == 0 && fcntl(atoi(argv[3]), F_GETFD) == -1);
        return 22;
    }
    CHECK(argc == 2 && strcmp(argv[1], "first") == 0);
    pid_t child;
    char *echo[] = {"echo", "spawned", NULL}, *missing[] = {"missing", NULL};
    fflush(stdout);
    CHECK0(posix_spawn(&child, "/bin/echo", NULL, NULL, echo, environ));
    expect_exit(child, 0);
    CHECK0(posix_spawnp(&child, "true", NULL, NULL, echo, environ));
    expect_exit(child, 0);
    CHECK(posix_spawn(&child, "/no/such/program", NULL, NULL, missing, environ) == ENOENT);
    posix_spawn_file_actions_t actions;
    CHECK0(posix_spawn_file_actions_init(&actions));
    CHECK0(posix_spawn_file_actions_addopen(&actions, 1, "spawned.txt", O_WRONLY | O_CREAT | O_TRUNC, 0600));
    CHECK0(posix_spawn(&child, "/bin/echo", &actions, NULL, echo, environ));
    expect_exit(child, 0);
    char text[32] = "";
    int fd = open("spawned.txt", O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text) == 8 && strcmp(text, "spawned\n") == 0);

    volatile int shared = 1;
    child = vfork();
    if (child == 0) {
        shared = 2; // the parent's own memory
        execl("/no/such/program", "x", (char *)NULL);
        _exit(errno == ENOENT ? 33 : 1);
    }
    expect_exit(child, 33);
    CHECK(shared == 2);
    child = vfork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exit 12", (char *)NULL);
        _exit(1);
    }
    expect_exit(child, 12);

    char *nothing[] = {NULL};
    CHECK(execve("/", nothing, nothing) == -1 && errno == EACCES);
    CHECK(execve("spawned.txt", missing, nothing) == -1 && errno == EACCES);
    CHECK(chmod("spawned.txt", 0700) == 0 && execve("spawned.txt", missing, nothing) == -1 && errno == ENOEXEC);

    int script = open("script", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    static const char lines[] = "#!/bin/sh -e\necho script \"$@\"\nexit 14\n";
    CHECK(write(script, lines, sizeof lines - 1) == sizeof lines - 1 && close(script) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl("./script", "ignored", "one", "two words", (char *)NULL);
        _exit(1);
    }
    expect_exit(child, 14);

    int keep = open("/dev/null", O_RDONLY), shut = open("/dev/null", O_RDONLY | O_CLOEXEC);
    char keep_text[8], shut_text[8];
    sprintf(keep_text, "%d", keep);
    sprintf(shut_text, "%d", shut);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", self, "descriptors", keep_text, shut_text, (char *)NULL);
        _exit(1);
    }
    expect_exit(child, 22);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        pthread_t thread;
        CHECK0(pthread_create(&thread, NULL, exec_from_thread, NULL));
        for (;;) pause();
    }
    expect_exit(child, 21);
    return ok();
}
