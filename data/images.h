// rill::images: pictures, from the bytes of a file to the tensors that a model takes.
#pragma once
#include "rill/data/images/augment.h"
#include "rill/data/images/codecs.h"
#include "rill/data/images/colour.h"
#include "rill/data/images/geometry.h"
#include "rill/data/images/measure.h"
