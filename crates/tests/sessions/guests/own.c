// Each thread has variables of its own, of the program and of the C library.
#include <errno.h>
#include <pthread.h>

__thread int padding[20];
__thread int own = 5;
int told;

static void tell(int n)
{
	told += n;
}

static void *work(void *argument)
{
	own = (int)(long)argument;
	errno = own + 100;
	tell(own + padding[3]);
	return 0;
}

int main(void)
{
	pthread_t thread;

	own = 7;
	errno = 3;
	pthread_create(&thread, 0, work, (void *)20);
	pthread_join(thread, 0);
	tell(own);
	return 0;
}
