// Calls with arguments and results of many types, and ways to leave them.
#include <setjmp.h>
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <pthread.h>
struct Small { int a; double b; };
struct Two { float x, y; };
struct Big { long v[4]; };
enum Kind { FIRST, SECOND = 7 };
#define NI __attribute__((noipa))
extern "C" {
NI int plain(int n, const char *text, Kind kind, bool flag, char c) { return n + (text ? strlen(text) : 0) + kind + flag + c; }
NI Small small(Small s, double d, float f, Two t) { s.a += 1; s.b += d + f + t.x; return s; }
NI Big big(Big b, long a1, long a2, long a3, long a4, long a5, long a6, long a7, unsigned char a8) { b.v[0] += a7 + a8 + a1; return b; }
NI void nothing(int *p) { *p += 1; }
NI int fact(int n) { return n < 2 ? 1 : n * fact(n - 1); }
NI int tailed(int n) { return plain(n, "tail", FIRST, false, 'x'); }
NI unsigned long long wide(unsigned __int128 v) { return v >> 64; }
}
static jmp_buf out;
extern "C" NI int jumper(int n) { if (n > 0) longjmp(out, n); return 5; }
extern "C" NI int thrower(int n) { if (n > 1) throw n; return 6; }
NI std::string text(const std::string &s, std::string by) { return s + by; }
namespace a { struct B { int v; NI int method(int x) { return v += x; } }; }
static void *work(void *p) { return (void *)(long)fact((long)p); }
int main() {
    plain(1, "one", SECOND, true, 'c'); plain(-1, nullptr, (Kind)3, false, 'd');
    small({3, 1.5}, 2.25, 0.5f, {1, 2});
    Big b = {{1, 2, 3, 4}}; big(b, 1, 2, 3, 4, 5, 6, 7, 8);
    int i = 0; nothing(&i);
    fact(3); tailed(2);
    wide(((unsigned __int128)9 << 64) | 3);
    for (volatile int k = 0; k < 3; k = k + 1) {
        if (setjmp(out) == 0) jumper(k);
        i++;
    }
    for (volatile int k = 0; k < 4; k = k + 1) { try { thrower(k); } catch (int) { i++; } i++; }
    text("x", "y");
    a::B m{1}; m.method(41);
    pthread_t t[2];
    for (long k = 0; k < 2; k++) pthread_create(&t[k], 0, work, (void *)(k + 2));
    for (int k = 0; k < 2; k++) pthread_join(t[k], 0);
    getenv("HOME"); puts("done");
    return 0;
}
