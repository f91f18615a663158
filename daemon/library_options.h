#pragma once

#include <cstddef>
#include <memory>

#include "daemon/options.h"
#include "gateway/worker.h"
#include "memory/pool_memory.h"
#include "upstream/connection.h"
#include "upstream/rdma_route.h"
#include "upstream/whereabouts.h"

namespace keyferry::daemon {

// What the configuration comes to in the libraries' own options. Pure functions; `options` was checked.

memory::PoolOptions pool_options(const PoolOptions& options);

/// How everything connects to the node. `credentials`: the configured identity's, null if it has none.
upstream::ConnectOptions connect_options(const Options& options,
                                         std::shared_ptr<const upstream::Credentials> credentials,
                                         const std::shared_ptr<upstream::Whereabouts>& where);

/// The same for ordinary commands, which alone may go by RDMA (lanes never do): with a `route`, null if RDMA is not
/// wanted.
upstream::ConnectOptions ordinary_options(const Options& options,
                                          std::shared_ptr<const upstream::Credentials> credentials,
                                          const std::shared_ptr<upstream::Whereabouts>& where,
                                          const std::shared_ptr<upstream::RdmaRoute>& route);

/// For upstream.mode: sentinel. `credentials`: for the sentinels, null if they want none.
upstream::SentinelOptions sentinel_options(const Options& options,
                                           std::shared_ptr<const upstream::Credentials> credentials);

/// Of each of `workers` workers; `connect` is ordinary_options().
gateway::WorkerOptions worker_options(const Options& options, upstream::ConnectOptions connect, std::size_t workers);

}  // namespace keyferry::daemon
