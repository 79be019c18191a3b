/* A library whose constructor takes as long as the program says: the dynamic linker's lock is held
 * meanwhile. */
void holder_stay(void);

__attribute__((constructor)) static void slow_begin(void)
{
	holder_stay();
}
