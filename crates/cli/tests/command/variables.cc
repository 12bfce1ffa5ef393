// Variables of many kinds, each written last with a value that a test knows.
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>
#include <string>
#include <vector>
#include <cstdio>
#include <cstdlib>
struct Limit { int min; int max; };
struct Base { long id = 0; };
struct Config : Base {
    struct Limit limits[4];
    union { int a; float b; };
    unsigned lo : 3, hi : 5;
    const char *name;
    Config *next;
};
enum class Color { red, green = 5 };
namespace ns {
struct Class { static int member; static thread_local int per; };
int Class::member = 1;
thread_local int Class::per = 2;
namespace { int hidden = 4; }
}
static int total;
Config config, other;
Config *ptr = &config;
thread_local int mine = 7;
int matrix[2][3];
std::vector<int> numbers;
std::string word = "start";
Color color;
static int crowd() { static int calls; return ++calls; }
__attribute__((noinline)) static int deep(int n, Limit *limit) {
    volatile int local = n * 2;
    limit->max += n;
    if (n == 0) { local = 99; __builtin_trap(); }
    int r = deep(n - 1, limit) + local;
    return r;
}
static sem_t ready;
static void *work(void *p) {
    mine = (int)(long)p * 10;
    ns::Class::per = (int)(long)p;
    sem_post(&ready);
    for (;;) pause();
}
int main(int argc, char **) {
    for (int i = 0; i < 5; i++) { total += i; crowd(); }
    config.limits[3].max = 42;
    config.limits[3].max = 43;
    config.a = 3;
    config.lo = 5; config.hi = 17;
    config.id = 9;
    config.name = "conf";
    config.next = &other;
    config.next->limits[1].min = 77;
    ns::Class::member = 5;
    ns::hidden = 6;
    matrix[1][2] = 12;
    numbers.push_back(4); numbers.push_back(5);
    numbers[1] = 55;
    word = "hello world, this is long";
    word[0] = 'H';
    color = Color::green;
    pthread_t t;
    pthread_create(&t, nullptr, work, (void *)3L);
    sem_wait(&ready);
    mine = 8;
    printf("%d\n", total);
    fflush(stdout);
    if (argc > 1) { Limit limit = {1, 2}; return deep(3, &limit); }
    // The destructors of global variables would write to them again.
    _exit(0);
}
