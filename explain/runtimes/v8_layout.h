/* Where the objects of V8 have what: the constants that a build of V8 keeps for debuggers, as
 * objects named v8dbg_* (tools/gen-postmortem-metadata.py of V8). They are read from the file, by
 * its dynamic table and .symtab: nothing of the process is read. Names of fields end with their
 * type, which changes from release to release, so they are matched by their beginnings; what a
 * release does not tell is known by its version.
 *
 * Known are V8 10.2 (node 18), 11.3 (node 20), 12.4 (node 22) and 13.6 (node 24) with words of 64
 * bits: not with compressed pointers, as in Electron, and not in deno. */
#ifndef LIMPET_EXPLAIN_RUNTIMES_V8_LAYOUT_H
#define LIMPET_EXPLAIN_RUNTIMES_V8_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct limpet_module;
struct limpet_modules;

/* X(field, name, another name): each is an int32_t, LIMPET_V8_UNKNOWN if nothing tells it. A name
 * that ends with two underscores is the beginning of one; the other name may be NULL. Offsets are
 * from the beginning of an object, without its tag. */
#define LIMPET_V8_CONSTANTS(X)                                                                 \
	X(tagged_size, "TaggedSize", NULL)                                                     \
	X(object_tag, "HeapObjectTag", NULL)                                                   \
	X(smi_shift_size, "SmiShiftSize", NULL)                                                \
	X(first_nonstring, "FirstNonstringType", NULL)                                         \
	X(first_context, "FirstContextType", NULL)                                             \
	X(last_context, "LastContextType", NULL)                                               \
	X(map_instance_size, "class_Map__instance_size_in_words__", NULL)                      \
	X(map_instance_type, "class_Map__instance_type__", NULL)                               \
	X(map_bit_field3, "class_Map__bit_field3__", NULL)                                     \
	X(map_dictionary_shift, "bit_field3_is_dictionary_map_shift", NULL)                    \
	X(map_constructor, "class_Map__constructor_or_back_pointer__", NULL)                   \
	X(map_prototype, "class_Map__prototype__", NULL)                                       \
	X(string_length, "class_String__length__", NULL)                                       \
	X(string_chars, "class_SeqOneByteString__chars__", NULL)                               \
	X(cons_first, "class_ConsString__first__", NULL)                                       \
	X(cons_second, "class_ConsString__second__", NULL)                                     \
	X(sliced_parent, "class_SlicedString__parent__", NULL)                                 \
	X(sliced_offset, "class_SlicedString__offset__", NULL)                                 \
	X(thin_actual, "class_ThinString__actual__", NULL)                                     \
	X(array_length, "class_FixedArrayBase__length__", NULL)                                \
	X(array_data, "class_FixedArray__data__", NULL)                                        \
	X(function_shared, "class_JSFunction__shared__", NULL)                                 \
	X(function_code, "class_JSFunction__code__", NULL)                                     \
	X(shared_name_or_scope, "class_SharedFunctionInfo__name_or_scope_info__", NULL)        \
	X(shared_data, "class_SharedFunctionInfo__function_data__",                            \
	  "class_SharedFunctionInfo__trusted_function_data__")                                 \
	X(shared_script, "class_SharedFunctionInfo__script_or_debug_info__",                   \
	  "class_SharedFunctionInfo__script__")                                                \
	X(script_name, "class_Script__name__", NULL)                                           \
	X(script_source, "class_Script__source__", NULL)                                       \
	X(script_line_ends, "class_Script__line_ends__", NULL)                                 \
	X(scope_local_count, "scopeinfo_idx_ncontextlocals", NULL)                             \
	X(scope_first_vars, "scopeinfo_idx_first_vars", NULL)                                  \
	X(uncompiled_name, "class_UncompiledData__inferred_name__", NULL)                      \
	X(uncompiled_start, "class_UncompiledData__start_position__", NULL)                    \
	X(uncompiled_end, "class_UncompiledData__end_position__", NULL)                        \
	X(bytecode_positions, "class_BytecodeArray__source_position_table__", NULL)            \
	X(bytecode_data, "class_BytecodeArray__data__", NULL)                                  \
	X(code_positions, "class_Code__source_position_table__", NULL)                         \
	X(code_deoptimization, "class_Code__deoptimization_data__", NULL)                      \
	X(code_start, "class_Code__instruction_start__", NULL)                                 \
	X(code_size, "class_Code__instruction_size__", NULL)                                   \
	X(deoptimization_literals, "DeoptimizationDataLiteralArrayIndex", NULL)                \
	X(deoptimization_inlining, "DeoptimizationDataInliningPositionsIndex", NULL)           \
	X(buffer_byte_length, "class_JSArrayBuffer__byte_length__", NULL)                      \
	X(buffer_backing_store, "class_JSArrayBuffer__backing_store__", NULL)                  \
	X(frame_function, "off_fp_function", NULL)                                             \
	X(frame_bytecode_array, "off_fp_bytecode_array", NULL)                                 \
	X(frame_bytecode_offset, "off_fp_bytecode_offset", NULL)                               \
	X(type_map, "type_Map__", NULL)                                                        \
	X(type_function, "type_JSFunction__", NULL)                                            \
	X(type_shared, "type_SharedFunctionInfo__", NULL)                                      \
	X(type_scope, "type_ScopeInfo__", NULL)                                                \
	X(type_script, "type_Script__", NULL)                                                  \
	X(type_bytecode, "type_BytecodeArray__", NULL)                                         \
	X(type_code, "type_Code__", NULL)                                                      \
	X(type_uncompiled, "type_UncompiledDataWithoutPreparseData__", NULL)                   \
	X(type_uncompiled_preparse, "type_UncompiledDataWithPreparseData__", NULL)             \
	X(type_uncompiled_job, "type_UncompiledDataWithoutPreparseDataWithJob__", NULL)        \
	X(type_uncompiled_preparse_job, "type_UncompiledDataWithPreparseDataAndJob__", NULL)

#define LIMPET_V8_UNKNOWN INT32_MIN
#define LIMPET_V8_TYPES 512u
#define LIMPET_V8_BYTECODES 256u
#define LIMPET_V8_TYPE_NAME_BYTES 48u

/* An instance type, and the C++ class that has it. */
struct limpet_v8_type {
	uint16_t type;
	char class[LIMPET_V8_TYPE_NAME_BYTES];
};

struct limpet_v8_layout {
	unsigned major, minor, build; /* of V8; major 0: not known */
	uint8_t module_scope;         /* the type of a module's ScopeInfo */
#define LIMPET_V8_MEMBER(field, name, other) int32_t field;
	LIMPET_V8_CONSTANTS(LIMPET_V8_MEMBER)
#undef LIMPET_V8_MEMBER
	/* Where a Code object has its function's bytecode, or its deoptimization data; and from where
	 * on instructions follow an object that refers to it. */
	uint8_t code_data, code_head;
	bool code_is_inside; /* the instructions: they follow the Code object itself */
	/* Lengths of bytecodes, with operands of 1, 2 and 4 bytes; 0: not known. */
	uint8_t bytecode_sizes[3][LIMPET_V8_BYTECODES];
	struct limpet_v8_type types[LIMPET_V8_TYPES]; /* by their numbers; those that are told */
	size_t type_count;
};

/* From an ELF file. -ENOENT: it has no V8; -EOPNOTSUPP: of its V8 limpet does not know the layout:
 * then *ret has its version, as far as it is known, and nothing else. Others: -errno. */
int limpet_v8_layout_read(int fd, struct limpet_v8_layout *ret) LIMPET_MUST_CHECK;
/* The same of the module of a process that has V8: its program, or a library for it. */
int limpet_v8_layout_find(const struct limpet_modules *modules,
			  struct limpet_v8_layout *ret) LIMPET_MUST_CHECK;
/* The same, if limpet may know the layout: without a search of the whole file for a version.
 * *ret_module: which it is, valid as long as `modules`. */
int limpet_v8_layout_find_known(const struct limpet_modules *modules, struct limpet_v8_layout *ret,
				const struct limpet_module **ret_module) LIMPET_MUST_CHECK;
/* The class of an instance type; NULL: not told. Valid as long as `layout`. */
const char *limpet_v8_class_of(const struct limpet_v8_layout *layout, uint16_t type);
/* The instance type of a class; LIMPET_V8_UNKNOWN: not told. */
int32_t limpet_v8_type_of(const struct limpet_v8_layout *layout, const char *class);

/* The name of a space of the heap, by its number: static, "old space"; NULL: not known. */
const char *limpet_v8_space_name(const struct limpet_v8_layout *layout, uint32_t id);

#endif
