// Files that other programs read and write, but summaries (summary.h): tensors, models, graphs as text, record files,
// CSV, Arrow, PNG.
#pragma once
#include "rill/tensor/compiler.h"

#include "rill/serialize/arrow.h"
#include "rill/serialize/checkpoint.h"
#include "rill/serialize/checkpoint_manager.h"
#include "rill/serialize/csv.h"
#include "rill/serialize/debugger.h"
#include "rill/serialize/events.h"
#include "rill/serialize/examples.h"
#include "rill/serialize/export_model.h"
#include "rill/serialize/graph_formats.h"
#include "rill/serialize/model.h"
#include "rill/serialize/png_image.h"
#include "rill/serialize/records.h"
#include "rill/serialize/rill_file.h"
#include "rill/serialize/save.h"
#include "rill/serialize/table.h"
#include "rill/serialize/wav_audio.h"
#include "rill/serialize/weights.h"
#include "rill/trace/export.h"
