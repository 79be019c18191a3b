/* An extension that splits text. It forgets a reference to each long token. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static Py_ssize_t forgotten;

static PyObject *make_token(const char *from, Py_ssize_t size)
{
	return PyBytes_FromStringAndSize(from, size);
}

static PyObject *tokenize(PyObject *self, PyObject *args)
{
	const char *text;
	Py_ssize_t size, from = 0;
	PyObject *tokens;

	if (!PyArg_ParseTuple(args, "y#", &text, &size))
		return NULL;
	tokens = PyList_New(0);
	for (Py_ssize_t at = 0; at <= size; at++)
		if (at == size || text[at] == ' ') {
			PyObject *token = make_token(text + from, at - from);

			PyList_Append(tokens, token); /* which takes a reference of its own */
			if (at - from < 600)
				Py_DECREF(token);
			else
				forgotten += at - from;
			from = at + 1;
		}
	(void)self;
	return tokens;
}

static PyObject *count_forgotten(PyObject *self, PyObject *args)
{
	(void)self;
	(void)args;
	return PyLong_FromSsize_t(forgotten);
}

static PyMethodDef methods[] = {{"tokenize", tokenize, METH_VARARGS, NULL},
				{"forgotten", count_forgotten, METH_NOARGS, NULL},
				{NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {
	PyModuleDef_HEAD_INIT, "tokenizer", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_tokenizer(void)
{
	return PyModule_Create(&module);
}
