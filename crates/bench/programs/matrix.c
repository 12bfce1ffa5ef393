// A blocked product of two matrices of 1024 x 1024 numbers by two threads, each half of the rows.
#include <pthread.h>
#include <stdio.h>

#define N 1024
#define BLOCK 32
#define THREADS 2

static double a[N][N], b[N][N], c[N][N];

static void *work(void *number) {
    long thread = (long)number;
    for (int row = thread * N / THREADS; row < (thread + 1) * N / THREADS; row += BLOCK)
        for (int column = 0; column < N; column += BLOCK)
            for (int i = row; i < row + BLOCK; i++)
                for (int k = column; k < column + BLOCK; k++) {
                    double value = a[i][k];
                    for (int j = 0; j < N; j++) c[i][j] += value * b[k][j];
                }
    return NULL;
}

int main(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = i ^ j;
            b[i][j] = i + j;
        }
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i)) return 1;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    double sum = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) sum += c[i][j];
    printf("%.17g\n", sum);
    return 0;
}
