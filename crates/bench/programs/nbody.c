// The motion of 3000 bodies by two threads: each adds up the forces of all bodies on its half, and moves them behind a
// barrier.
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#define BODIES 3000
#define STEPS 10
#define THREADS 2

static struct { double x, y, z, mass; } bodies[BODIES];
static struct { double x, y, z; } speeds[BODIES];
static pthread_barrier_t barrier;

static void *work(void *number) {
    long thread = (long)number;
    int from = thread * BODIES / THREADS, to = (thread + 1) * BODIES / THREADS;
    for (int step = 0; step < STEPS; step++) {
        for (int i = from; i < to; i++) {
            double x = 0, y = 0, z = 0;
            for (int j = 0; j < BODIES; j++) {
                double dx = bodies[j].x - bodies[i].x, dy = bodies[j].y - bodies[i].y, dz = bodies[j].z - bodies[i].z;
                double square = dx * dx + dy * dy + dz * dz + 1e-3;
                double pull = bodies[j].mass / (square * sqrt(square));
                x += dx * pull;
                y += dy * pull;
                z += dz * pull;
            }
            speeds[i].x += x * 1e-3;
            speeds[i].y += y * 1e-3;
            speeds[i].z += z * 1e-3;
        }
        pthread_barrier_wait(&barrier);
        for (int i = from; i < to; i++) {
            bodies[i].x += speeds[i].x * 1e-3;
            bodies[i].y += speeds[i].y * 1e-3;
            bodies[i].z += speeds[i].z * 1e-3;
        }
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void) {
    if (pthread_barrier_init(&barrier, NULL, THREADS)) return 1;
    unsigned state = 1;
    for (int i = 0; i < BODIES; i++) {
        double *place[] = {&bodies[i].x, &bodies[i].y, &bodies[i].z, &bodies[i].mass};
        for (int axis = 0; axis < 4; axis++) {
            state = state * 1664525u + 1013904223u;
            *place[axis] = (state >> 8) * 0x1p-24;
        }
    }
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i)) return 1;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    double sum = 0;
    for (int i = 0; i < BODIES; i++) sum += bodies[i].x + bodies[i].y + bodies[i].z;
    printf("%.17g\n", sum);
    return 0;
}
