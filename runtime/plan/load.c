/* load.c: opening plans: mapping, header, checksum, machine; and reading records as types and
 * attributes.
 *
 * The order of the checks is the order of trust: the size of the header, magic and version (another version
 * may lay out the rest differently), byte order, size, checksum (accidents), tables and all that they refer
 * to (runtime/plan/structure.c: malice), machine, and at last what the plan does (runtime/plan/check.c).
 */
#include "runtime/kernels/table.h"
#include "runtime/plan/plan.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t plan_checksum(const void *bytes, size_t size) {
    plan_header header;
    memcpy(&header, bytes, sizeof header);
    header.checksum = 0;
    uint64_t hash = base_hash(&header, sizeof header, 0);
    return base_hash((const unsigned char *)bytes + sizeof header, size - sizeof header, hash);
}

/* ---- header -------------------------------------------------------------------------------------------- */

static base_status check_header(const void *bytes, size_t size, base_report *report) {
    const plan_header *header = bytes;
    if (size < 8 || memcmp(bytes, PLAN_MAGIC, 8) != 0)
        return base_fail(report, BASE_INVALID, "is not a plan");
    if (size < 16) return base_fail(report, BASE_INVALID, "is cut off: %zu bytes", size);
    if (header->endian != PLAN_ENDIAN) {
        return base_fail(report, BASE_INVALID,
                         "was compiled for a machine of another byte order: compile the model again here");
    }
    if (header->version != PLAN_VERSION) {
        return base_fail(report, BASE_INVALID,
                         "is a plan of version %u, this library reads version %d: compile the model again",
                         header->version, (int)PLAN_VERSION);
    }
    if (size < sizeof *header || header->file_bytes != size) {
        return base_fail(report, BASE_INVALID,
                         "is cut off or has bytes too many: %zu bytes, its header says %llu", size,
                         size < sizeof *header ? 0 : (unsigned long long)header->file_bytes);
    }
    if (header->checksum != plan_checksum(bytes, size)) {
        return base_fail(report, BASE_INVALID, "is damaged: the checksum is wrong");
    }
    return BASE_OK;
}

static base_status check_machine_text(const plan_header *header, base_report *report) {
    char here[PLAN_MACHINE_TEXT];
    if (strcmp(header->machine, "portable") == 0) return BASE_OK;
    rt_machine_describe(false, here, sizeof here);
    if (strcmp(header->machine, here) == 0) return BASE_OK;
    return base_fail(report, BASE_INVALID,
                     "was compiled for \"%s\", this is \"%s\": compile the model again here", header->machine,
                     here);
}

/* ---- opening ------------------------------------------------------------------------------------------- */

static base_status place_table(plan *of, const plan_table *table, size_t record, const char *name,
                               const void **first, base_report *report) {
    size_t bytes, end;
    if (table->offset % 8 != 0 || table->offset < sizeof(plan_header) || table->offset > of->bytes ||
        table->count >= PLAN_ABSENT || !base_size_multiply((size_t)table->count, record, &bytes) ||
        !base_size_add((size_t)table->offset, bytes, &end) || end > of->bytes) {
        return base_fail(report, BASE_INVALID, "is malformed: its table of %s lies outside of the file",
                         name);
    }
    *first = of->base + table->offset;
    return BASE_OK;
}

static base_status place_tables(plan *of, base_report *report) {
    const plan_header *header = of->header;
    struct {
        const plan_table *table;
        size_t record;
        const char *name;
        const void **first;
    } tables[] = {
        {&header->texts, 1, "texts", (const void **)&of->texts},
        {&header->integers, sizeof *of->integers, "integers", (const void **)&of->integers},
        {&header->tensor_ids, sizeof *of->tensor_ids, "tensor ids", (const void **)&of->tensor_ids},
        {&header->tensors, sizeof *of->tensors, "tensors", (const void **)&of->tensors},
        {&header->attributes, sizeof *of->attributes, "attributes", (const void **)&of->attributes},
        {&header->nodes, sizeof *of->nodes, "nodes", (const void **)&of->nodes},
        {&header->graphs, sizeof *of->graphs, "graphs", (const void **)&of->graphs},
        {&header->multiviews, sizeof *of->multiviews, "multiviews", (const void **)&of->multiviews},
        {&header->addresses, sizeof *of->addresses, "addresses", (const void **)&of->addresses},
        {&header->symbols, sizeof *of->symbols, "symbols", (const void **)&of->symbols},
        {&header->inputs, sizeof *of->inputs, "inputs", (const void **)&of->inputs},
        {&header->outputs, sizeof *of->outputs, "outputs", (const void **)&of->outputs},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        base_status status =
            place_table(of, tables[i].table, tables[i].record, tables[i].name, tables[i].first, report);
        if (status != BASE_OK) return status;
    }
    size_t end;
    if (header->constants_offset % PLAN_ALIGNMENT != 0 || header->constants_offset > of->bytes ||
        !base_size_add((size_t)header->constants_offset, (size_t)header->constants_bytes, &end) ||
        end > of->bytes) {
        return base_fail(report, BASE_INVALID, "is malformed: its constants lie outside of the file");
    }
    of->constants = of->base + header->constants_offset;
    return BASE_OK;
}

static base_status open_bytes(plan *of, bool check_machine, base_report *report) {
    if ((uintptr_t)of->base % PLAN_ALIGNMENT != 0) {
        return base_fail(report, BASE_USAGE, "the bytes of a plan must be aligned to %d",
                         (int)PLAN_ALIGNMENT);
    }
    base_status status = check_header(of->base, of->bytes, report);
    if (status != BASE_OK) return status;
    of->header = (const plan_header *)of->base;
    if (!memchr(of->header->machine, 0, sizeof of->header->machine)) {
        return base_fail(report, BASE_INVALID, "is malformed: its machine has no end");
    }
    if (check_machine) status = check_machine_text(of->header, report);
    if (status == BASE_OK) status = place_tables(of, report);
    if (status == BASE_OK) status = plan_check_structure(of, check_machine, report);
    if (status == BASE_OK) status = plan_check(of, report);
    return status;
}

base_status plan_open(const void *bytes, size_t size, const char *name, bool check_machine,
                      void (*release)(void *owner), void *owner, plan *opened, base_report *report) {
    *opened = (plan){.base = bytes, .bytes = size, .release = release, .owner = owner};
    base_report_context(report, "%s", name);
    base_status status = open_bytes(opened, check_machine, report);
    base_report_context(report, NULL);
    if (status != BASE_OK) plan_close(opened);
    return status;
}

void plan_close(plan *opened) {
    if (opened->release) opened->release(opened->owner);
    *opened = (plan){0};
}

/* ---- files --------------------------------------------------------------------------------------------- */

typedef struct file_mapping {
    void *start;
    size_t bytes;
} file_mapping;

static void release_mapping(void *owner) {
    file_mapping *mapping = owner;
    munmap(mapping->start, mapping->bytes);
    free(mapping);
}

static base_status fail_file(base_report *report, const char *path, const char *what, int number) {
    bool users = number == ENOENT || number == ENOTDIR || number == EACCES || number == EPERM ||
                 number == ENAMETOOLONG || number == ELOOP;
    char text[128];
    return base_fail(report, users ? BASE_INVALID : BASE_SYSTEM_ERROR, "%s: %s: %s", path, what,
                     strerror_r(number, text, sizeof text));
}

static base_status map_file(int file, const char *path, file_mapping *mapping, base_report *report) {
    struct stat status;
    if (fstat(file, &status) != 0) return fail_file(report, path, "cannot be read", errno);
    if (!S_ISREG(status.st_mode)) return base_fail(report, BASE_INVALID, "%s: is no file", path);
    if (status.st_size < (off_t)sizeof(plan_header))
        return base_fail(report, BASE_INVALID, "%s: is not a plan", path);
    mapping->bytes = (size_t)status.st_size;
    mapping->start = mmap(NULL, mapping->bytes, PROT_READ, MAP_PRIVATE, file, 0);
    return mapping->start == MAP_FAILED ? fail_file(report, path, "cannot be mapped", errno) : BASE_OK;
}

base_status plan_load(const char *path, plan *loaded, base_report *report) {
    *loaded = (plan){0};
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* what is no file must not keep us waiting */
    if (file < 0) return fail_file(report, path, "cannot be opened", errno);
    file_mapping *mapping = malloc(sizeof *mapping);
    base_status status = mapping ? map_file(file, path, mapping, report)
                                 : base_fail(report, BASE_SYSTEM_ERROR, "%s: out of memory", path);
    close(file);
    if (status != BASE_OK) {
        free(mapping);
        return status;
    }
    return plan_open(mapping->start, mapping->bytes, path, true, release_mapping, mapping, loaded, report);
}

/* ---- records ------------------------------------------------------------------------------------------- */

void plan_tensor_type(const plan *of, uint32_t id, op_type *type) {
    const plan_tensor *tensor = &of->tensors[id];
    *type = (op_type){.kind = (op_kind)tensor->kind,
                      .element = (op_kind)tensor->element,
                      .dtype = (op_dtype)tensor->dtype,
                      .layout = (op_layout)tensor->layout,
                      .shape = {.rank = tensor->rank}};
    for (int32_t d = 0; d < tensor->rank; d++) type->shape.dims[d] = of->integers[tensor->dims + (uint64_t)d];
    if (type->layout == OP_LAYOUT_PACKED) type->packed_bytes = tensor->bytes;
}

static bool read_attribute(const plan *of, const plan_attribute *from, base_arena *arena, op_attribute *to) {
    *to = (op_attribute){
        .name = of->texts + from->name, .kind = (op_attribute_kind)from->kind, .count = (size_t)from->count};
    bool listed = to->kind == OP_ATTRIBUTE_INTS || to->kind == OP_ATTRIBUTE_FLOATS ||
                  to->kind == OP_ATTRIBUTE_STRINGS || to->kind == OP_ATTRIBUTE_TYPE;
    const int64_t *integers = of->integers + (listed ? from->value : 0);
    switch (to->kind) {
    case OP_ATTRIBUTE_INT:
        to->as.integer = (int64_t)from->value;
        return true;
    case OP_ATTRIBUTE_FLOAT: {
        uint32_t bits = (uint32_t)from->value;
        memcpy(&to->as.real, &bits, sizeof bits);
        return true;
    }
    case OP_ATTRIBUTE_STRING:
        to->as.text = (op_string){of->texts + from->value, (size_t)from->count};
        to->count = 1;
        return true;
    case OP_ATTRIBUTE_INTS:
        to->as.integers = integers;
        return true;
    case OP_ATTRIBUTE_FLOATS: {
        float *reals = BASE_ARRAY(arena, float, to->count);
        for (size_t i = 0; reals && i < to->count; i++) {
            uint32_t bits = (uint32_t)integers[i];
            memcpy(&reals[i], &bits, sizeof bits);
        }
        to->as.reals = reals;
        return reals != NULL;
    }
    case OP_ATTRIBUTE_STRINGS: {
        op_string *texts = BASE_ARRAY(arena, op_string, to->count);
        for (size_t i = 0; texts && i < to->count; i++) {
            texts[i] = (op_string){of->texts + integers[2 * i], (size_t)integers[2 * i + 1]};
        }
        to->as.texts = texts;
        return texts != NULL;
    }
    case OP_ATTRIBUTE_TENSOR: {
        op_tensor *tensor = BASE_NEW(arena, op_tensor);
        if (!tensor) return false;
        const plan_tensor *record = &of->tensors[from->value];
        plan_tensor_type(of, (uint32_t)from->value, &tensor->type);
        tensor->bytes = (size_t)record->bytes;
        tensor->data = (void *)(uintptr_t)(of->constants + record->address.offset);
        to->as.tensor = tensor;
        return true;
    }
    case OP_ATTRIBUTE_TYPE: {
        op_type *type = BASE_NEW(arena, op_type);
        if (!type) return false;
        *type = (op_type){.kind = (op_kind)integers[0],
                          .element = (op_kind)integers[1],
                          .dtype = (op_dtype)integers[2],
                          .shape = {.rank = (int32_t)integers[3]}};
        for (int32_t d = 0; d < type->shape.rank; d++) type->shape.dims[d] = integers[4 + d];
        to->as.type = type;
        return true;
    }
    }
    return false;
}

bool plan_node_attributes(const plan *of, const plan_node *node, base_arena *arena,
                          op_attributes *attributes) {
    op_attribute *items = BASE_ARRAY(arena, op_attribute, (size_t)node->attribute_count);
    *attributes = (op_attributes){(size_t)node->attribute_count, items};
    for (size_t i = 0; items && i < attributes->count; i++) {
        if (!read_attribute(of, &of->attributes[node->attributes + i], arena, &items[i])) return false;
    }
    return items != NULL;
}

op_code plan_node_code(const plan *of, const plan_node *node) {
    return op_code_from_name(of->texts + node->operator_domain, of->texts + node->operator_name);
}

void plan_node_context(const plan *of, const plan_node *node, const char *file, base_report *report) {
    const char *name = of->texts + node->name, *path = of->texts + node->path;
    const char *origin = name[0] ? name
                         : node->output_count && of->tensor_ids[node->outputs] != PLAN_ABSENT
                             ? of->texts + of->tensors[of->tensor_ids[node->outputs]].name
                             : "";
    base_report_context(report, "%s: %s%snode \"%s\" (%s)", file ? file : of->texts + of->header->model_name,
                        path, path[0] ? ": " : "", origin, of->texts + node->operator_name);
}

/* ---- loops --------------------------------------------------------------------------------------------- */

const plan_attribute *plan_node_attribute(const plan *of, const plan_node *node, const char *name) {
    for (uint64_t i = 0; i < node->attribute_count; i++) {
        const plan_attribute *attribute = &of->attributes[node->attributes + i];
        if (strcmp(of->texts + attribute->name, name) == 0) return attribute;
    }
    return NULL;
}

/* A list with one number for each scanned tensor; NULL where it is absent. */
static bool read_list(const plan *of, const plan_node *node, const char *name, uint32_t count,
                      const int64_t **list) {
    const plan_attribute *attribute = plan_node_attribute(of, node, name);
    *list = NULL;
    if (!attribute) return true;
    if (attribute->kind != OP_ATTRIBUTE_INTS || attribute->count != count) return false;
    *list = of->integers + attribute->value;
    return true;
}

static bool read_count(const plan *of, const plan_node *node, const char *name, uint64_t most,
                       uint64_t otherwise, uint32_t *count) {
    const plan_attribute *attribute = plan_node_attribute(of, node, name);
    uint64_t value = attribute && attribute->kind == OP_ATTRIBUTE_INT ? attribute->value : otherwise;
    if (value > most) return false;
    *count = (uint32_t)value;
    return true;
}

bool plan_loop_form_read(const plan *of, const plan_node *node, plan_loop_form *form) {
    *form = (plan_loop_form){.body = node->first_graph, .trip_count = PLAN_ABSENT, .condition = PLAN_ABSENT};
    const plan_graph *body = &of->graphs[node->first_graph];
    uint64_t inputs = node->input_count < 2 ? 0 : node->input_count - 2;
    if (!read_count(of, node, "ouro.scan_inputs", inputs, 0, &form->scan_inputs)) return false;
    form->carried = (uint32_t)inputs - form->scan_inputs;
    if (node->output_count < form->carried) return false;
    uint64_t stacked = node->output_count - form->carried;
    if (!read_count(of, node, "ouro.scan_outputs", stacked, stacked, &form->scan_outputs) ||
        form->scan_outputs != stacked || body->parameter_count != 2 + inputs ||
        body->result_count != 1 + node->output_count) {
        return false;
    }
    const uint32_t *ids = of->tensor_ids + node->inputs;
    if (node->input_count > 0) form->trip_count = ids[0];
    if (node->input_count > 1) form->condition = ids[1];
    form->initial = inputs ? ids + 2 : ids;
    form->parameters = of->tensor_ids + body->parameters;
    form->results = of->tensor_ids + body->results;
    form->outputs = of->tensor_ids + node->outputs;
    return read_list(of, node, "ouro.scan_input_axes", form->scan_inputs, &form->axes[0]) &&
           read_list(of, node, "ouro.scan_output_axes", form->scan_outputs, &form->axes[1]) &&
           read_list(of, node, "ouro.scan_input_directions", form->scan_inputs, &form->directions[0]) &&
           read_list(of, node, "ouro.scan_output_directions", form->scan_outputs, &form->directions[1]);
}

bool plan_tensor_reservation(const plan *of, uint32_t id, plan_address *reservation) {
    const plan_tensor *tensor = &of->tensors[id];
    if (tensor->address.space != MEMORY_DYNAMIC || !tensor->bytes) return false;
    *reservation = (plan_address){MEMORY_ARENA, 0, tensor->address.offset};
    return true;
}

bool plan_loop_grows(const plan *of, const plan_loop_form *form, uint32_t index, uint32_t *concat) {
    uint32_t parameter = form->parameters[2 + index], result = form->results[1 + index];
    const plan_tensor *grown = &of->tensors[result];
    const plan_graph *body = &of->graphs[form->body];
    if (of->tensors[parameter].address.space != MEMORY_DYNAMIC || grown->address.space != MEMORY_DYNAMIC ||
        grown->rank < 1)
        return false;
    for (uint64_t n = body->nodes; n < body->nodes + body->node_count; n++) {
        const plan_node *node = &of->nodes[n];
        if (node->output_count != 1 || of->tensor_ids[node->outputs] != result) continue;
        if (plan_node_code(of, node) != OP_CONCAT || of->tensor_ids[node->inputs] != parameter) return false;
        const plan_attribute *axis = plan_node_attribute(of, node, "axis");
        int32_t normal;
        if (!axis || !op_axis((int64_t)axis->value, grown->rank, &normal)) return false;
        for (int32_t d = 0; d < normal; d++)
            if (of->integers[grown->dims + (uint64_t)d] != 1) return false;
        if (concat) *concat = (uint32_t)n;
        return true;
    }
    return false;
}

int64_t plan_loop_axis(const plan_loop_form *form, bool output, uint32_t index) {
    return form->axes[output] ? form->axes[output][index] : 0;
}

bool plan_loop_backwards(const plan_loop_form *form, bool output, uint32_t index) {
    return form->directions[output] && form->directions[output][index] == 1;
}
