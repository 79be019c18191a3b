typedef void (*pool_function)(void *argument);

void pool_start(int workers);
void pool_submit(pool_function run, void *argument);
