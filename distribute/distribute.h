// Many processes as one program: sessions, collectives, data parallel training, meshes. On MPI; see docs/distribute.md.
#pragma once
#include "rill/distribute/cluster.h"
#include "rill/distribute/collectives.h"
#include "rill/distribute/layers.h"
#include "rill/distribute/mesh.h"
#include "rill/distribute/model.h"
#include "rill/distribute/server.h"
#include "rill/distribute/session.h"
#include "rill/distribute/sharded.h"
#include "rill/distribute/tape.h"
#include "rill/distribute/timeline.h"
