// Fast Fourier transforms of a million complex numbers by two threads, forth and back, with a barrier behind each stage.
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#define BITS 20
#define POINTS (1l << BITS)
#define THREADS 2

typedef struct { double re, im; } Complex;
static Complex points[POINTS], roots[POINTS / 2];
static pthread_barrier_t barrier;

static void transform(long thread, double sign) {
    long from = thread * (POINTS / 2) / THREADS, to = (thread + 1) * (POINTS / 2) / THREADS;
    for (long half = POINTS / 2; half >= 1; half /= 2) {
        for (long n = from; n < to; n++) {
            long within = n & (half - 1), at = (n - within) * 2 + within;
            Complex a = points[at], b = points[at + half], root = roots[within * (POINTS / 2 / half)];
            root.im *= sign;
            Complex less = {a.re - b.re, a.im - b.im};
            points[at] = (Complex){a.re + b.re, a.im + b.im};
            points[at + half] = (Complex){less.re * root.re - less.im * root.im, less.re * root.im + less.im * root.re};
        }
        pthread_barrier_wait(&barrier);
    }
    // The order of digits is turned around, each pair by the thread of its first half.
    for (long i = thread; i < POINTS; i += THREADS) {
        long j = 0;
        for (int bit = 0; bit < BITS; bit++) j |= (i >> bit & 1) << (BITS - 1 - bit);
        if (i < j) {
            Complex swapped = points[i];
            points[i] = points[j];
            points[j] = swapped;
        }
    }
    pthread_barrier_wait(&barrier);
}

static void *work(void *number) {
    transform((long)number, 1);
    transform((long)number, -1);
    return NULL;
}

int main(void) {
    if (pthread_barrier_init(&barrier, NULL, THREADS)) return 1;
    for (long i = 0; i < POINTS; i++) points[i] = (Complex){(double)(i % 1000), 0};
    for (long i = 0; i < POINTS / 2; i++) {
        double angle = -2 * M_PI * (double)i / POINTS;
        roots[i] = (Complex){cos(angle), sin(angle)};
    }
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i)) return 1;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (long i = 0; i < POINTS; i++)
        if (fabs(points[i].re / POINTS - (double)(i % 1000)) > 1e-6) return 1;
    printf("%.17g\n", points[POINTS / 3].re);
    return 0;
}
