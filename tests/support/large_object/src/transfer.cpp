#include "transfer.h"

#include <algorithm>
#include <numeric>

#include "counters.h"
#include "crc32c.h"
#include "main_thread.h"

namespace keyferry::large_object {
namespace {

std::span<std::byte> memory_of(const Transfer::Request& request) {
  if (request.buffer) return request.buffer->bytes();
  // The provider only reads it: every operation of a GET is a write to the client.
  const auto bytes = request.object->bytes();
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

std::mt19937& shuffler() {
  static auto* generator = new std::mt19937(std::random_device{}());
  return *generator;
}

}  // namespace

void Transfer::start(Fabric& fabric, WorkerPool& pool, Request request, Report report) {
  const std::shared_ptr<Transfer> transfer(new Transfer(fabric, pool, std::move(request), std::move(report)));
  transfer->cut_into_operations();
  const auto& plan = transfer->request_.mid_transfer;
  const auto all = transfer->operations_.size();
  const auto first = plan ? std::min(plan->pieces, all) : all;
  if (transfer->request_.delay.count() == 0) {
    transfer->run(first);
  } else {
    MainThread::after(transfer->request_.delay, [transfer, first] { transfer->run(first); });
  }
}

Transfer::Transfer(Fabric& fabric, WorkerPool& pool, Request request, Report report)
    : fabric_(fabric),
      pool_(pool),
      request_(std::move(request)),
      report_(std::move(report)),
      memory_(memory_of(request_), fabric.size()) {
  add(counters.transfers_running);
}

void Transfer::cut_into_operations() {
  auto pieces = cut(request_.triples, memory_.bytes().size(), request_.chunk);
  if (request_.shuffle) std::shuffle(pieces.begin(), pieces.end(), shuffler());
  operations_ = std::vector<Operation>(pieces.size());
  if (request_.kind == Operation::Kind::kRead) piece_crcs_.resize(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    auto& operation = operations_[i];
    operation.kind = request_.kind;
    operation.local = memory_.bytes().subspan(pieces[i].offset, pieces[i].length);
    operation.remote_key = pieces[i].rkey;
    operation.remote_address = pieces[i].address;
    operation.peers = request_.session->peers;
    operation.memory = &memory_;
  }
}

// Starts the next `count` pieces; batch_ended() follows when all of them have ended.
void Transfer::run(std::size_t count) {
  if (count == 0) {
    // Later: while its own command runs, a client can only be marked for closing, which then waits for a reply.
    MainThread::post([self = shared_from_this()] { self->batch_ended(); });
    return;
  }
  remaining_.store(count, std::memory_order_relaxed);
  const auto batch = std::span(operations_).subspan(started_, count);
  started_ += count;
  fabric_.submit(batch, shared_from_this());
}

void Transfer::operation_ended(Operation& operation, const std::string& problem) {
  if (!problem.empty()) {
    failed_.store(true, std::memory_order_relaxed);
    one_less();
    return;
  }
  const auto microseconds = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - operation.posted)
          .count());
  if (operation.kind == Operation::Kind::kWrite) {
    add(counters.writes);
    add(counters.write_bytes, operation.local.size());
    add(counters.write_microseconds, microseconds);
    one_less();
    return;
  }
  add(counters.reads);
  add(counters.read_bytes, operation.local.size());
  add(counters.read_microseconds, microseconds);
  pool_.run([self = shared_from_this(), index = static_cast<std::size_t>(&operation - operations_.data())] {
    self->hash(index);
  });
}

void Transfer::hash(std::size_t index) {
  piece_crcs_[index] = crc32c(operations_[index].local);
  one_less();
}

void Transfer::one_less() {
  if (remaining_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    MainThread::post([self = shared_from_this()] { self->batch_ended(); });
  }
}

void Transfer::batch_ended() {
  if (request_.mid_transfer && !interfered_) {
    interfered_ = true;
    interfere();
    return;
  }
  finish();
}

void Transfer::interfere() {
  const auto& plan = *request_.mid_transfer;
  if (plan.action == MidTransfer::Action::kFail) failed_.store(true, std::memory_order_relaxed);
  if (!wanted()) {
    finish();
    return;
  }
  if (plan.action == MidTransfer::Action::kDrop) {
    ValkeyModule_DeauthenticateAndCloseClient(MainThread::context(), request_.client_id);
  }
  if (plan.action == MidTransfer::Action::kEarlyError) report_({TransferResult::Kind::kEarlyError, 0});
  MainThread::after(plan.pause, [self = shared_from_this()] { self->run(self->operations_.size() - self->started_); });
}

void Transfer::finish() {
  subtract(counters.transfers_running);
  // Taken out, so that what the report holds is given back here and not on the thread that lets go of the transfer
  // last.
  const auto report = std::move(report_);
  if (!wanted()) {
    report({TransferResult::Kind::kFailed, 0});
    return;
  }
  const bool reads = request_.kind == Operation::Kind::kRead;
  report({TransferResult::Kind::kFinished, reads ? combined_crc() : 0});
}

std::uint32_t Transfer::combined_crc() const {
  std::vector<std::size_t> order(operations_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [this](std::size_t a, std::size_t b) { return operations_[a].local.data() < operations_[b].local.data(); });
  Crc32cCombiner combiner;
  for (const auto index : order) combiner.append(piece_crcs_[index], operations_[index].local.size());
  return combiner.value();
}

}  // namespace keyferry::large_object
