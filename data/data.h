// Input: files of data as tensors.
#pragma once
#include "rill/data/idx.h"
