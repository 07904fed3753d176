/* SPDX-License-Identifier: Apache-2.0 */
/* drawing.c: a graph in the language of Graphviz as a picture, by libgvc. A build without Graphviz (OURO_GRAPHVIZ=OFF) says so. */
#include "compiler/files/files.h"
#include "compiler/report/dot.h"

#ifdef OURO_GRAPHVIZ
#include <graphviz/gvc.h>
#include <string.h>

/* Graphviz writes its own complaints to stderr by default; ours say which file. */
static int silent(char *message) {
    (void)message;
    return 0;
}

/* A bitmap has a largest size; what is larger is drawn at fewer dots an inch, before Graphviz complains. */
static void fit_bitmap(Agraph_t *graph) {
    const double most = 32000, usual = 96, points = 72;
    double width = GD_bb(graph).UR.x, height = GD_bb(graph).UR.y;
    double larger = (width > height ? width : height) + 20;
    if (larger * usual / points > most) GD_drawing(graph)->dpi = most * points / larger;
}

base_status emit_drawing(const emit_buffer *dot, const char *format, const char *path, base_report *report) {
    agseterrf(silent);
    GVC_t *context = gvContext();
    Agraph_t *graph = context ? agmemread(dot->data) : NULL;
    char *picture = NULL;
    unsigned length = 0;
    base_status status = BASE_OK;
    if (!graph || gvLayout(context, graph, "dot") != 0) {
        status = base_fail(report, BASE_SYSTEM_ERROR,
                           "%s: Graphviz cannot lay out the graph; --dot FILE.dot still writes it", path);
    } else {
        if (strcmp(format, "png") == 0) fit_bitmap(graph);
        if (gvRenderData(context, graph, format, &picture, &length) != 0 || !picture) {
            status = base_fail(report, BASE_SYSTEM_ERROR,
                               "%s: this installation of Graphviz cannot write .%s", path, format);
        } else {
            status = file_write(path, picture, length, report);
        }
        gvFreeRenderData(picture);
        gvFreeLayout(context, graph);
    }
    if (graph) agclose(graph);
    if (context) gvFreeContext(context);
    return status;
}

#else

base_status emit_drawing(const emit_buffer *dot, const char *format, const char *path, base_report *report) {
    (void)dot;
    return base_fail(report, BASE_USAGE,
                     "%s: this build has no Graphviz; write --dot FILE.dot, which `dot -T%s FILE.dot` draws",
                     path, format);
}

#endif
