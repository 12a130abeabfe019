// Many processes as one program: sessions, collectives, data parallel training, meshes. On MPI; see docs/distribute.md.
#pragma once
#include "rill/distribute/async.h"
#include "rill/distribute/cluster.h"
#include "rill/distribute/collectives.h"
#include "rill/distribute/layers.h"
#include "rill/distribute/mesh.h"
#include "rill/distribute/model.h"
#include "rill/distribute/pipeline.h"
#include "rill/distribute/session.h"
#include "rill/distribute/sharded.h"
#include "rill/distribute/tape.h"
