#pragma once

#include <memory>

#include "base/loop.h"
#include "base/result.h"
#include "base/unique_function.h"
#include "upstream/whereabouts.h"

namespace keyferry::upstream {

/// One question to the sentinels, in turn until one knows: where is the primary? What it says goes to the Whereabouts.
/// Belongs to its loop's thread; destroying it calls the question off, and `done` is destroyed unrun.
class SentinelQuery {
 public:
  using Done = base::UniqueFunction<void(base::Result<Address>)>;

  /// `where` has sentinels. `limit` is for all of them together. `done` never runs inside the call. The error names
  /// each sentinel and what was wrong with it, with the code kNotResolved.
  SentinelQuery(base::Loop& loop, std::shared_ptr<Whereabouts> where, base::Duration limit, Done done);
  ~SentinelQuery();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace keyferry::upstream
