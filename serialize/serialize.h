// What leaves the process, but summaries (summary.h): graphs as text, record files, PNG.
#pragma once
#include "rill/tensor/compiler.h"

#include "rill/serialize/events.h"
#include "rill/serialize/graph_formats.h"
#include "rill/serialize/png_image.h"
#include "rill/trace/export.h"
