#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* decode(data) -> list of bytes. PyList_Append() takes its own reference; the one made here is
 * never dropped. */
static PyObject *frames_decode(PyObject *self, PyObject *argument)
{
	Py_buffer view;
	PyObject *list;

	(void)self;
	if (PyObject_GetBuffer(argument, &view, PyBUF_SIMPLE) != 0)
		return NULL;
	list = PyList_New(0);
	for (Py_ssize_t at = 0; at + 1500 <= view.len; at += 1500)
		PyList_Append(list, PyBytes_FromStringAndSize((const char *)view.buf + at, 1500));
	PyBuffer_Release(&view);
	return list;
}

static PyMethodDef methods[] = {{"decode", frames_decode, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {
	PyModuleDef_HEAD_INIT, "frames", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_frames(void)
{
	return PyModule_Create(&module);
}
