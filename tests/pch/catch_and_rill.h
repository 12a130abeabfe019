// What nearly every test includes, compiled once for all of them. Tests include it themselves as well: they build the
// same without it (-Db_pch=false, which ccache likes better).
#include "catch.h"
#include "rill/rill.h"
