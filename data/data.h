// Input: files of data as tensors.
#pragma once
#include "rill/tensor/compiler.h"

#include "rill/data/audio.h"
#include "rill/data/batches.h"
#include "rill/data/dataset.h"
#include "rill/data/features.h"
#include "rill/data/idx.h"
#include "rill/data/image_folder.h"
#include "rill/data/images.h"
#include "rill/data/sources.h"
#include "rill/data/vocabulary.h"
