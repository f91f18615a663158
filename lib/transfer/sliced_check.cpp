#include "transfer/sliced_check.h"

#include <utility>

namespace keyferry::transfer {

std::shared_ptr<SlicedCheck> SlicedCheck::begin(LandedValue value, std::size_t slice, base::Executor& worker,
                                                base::Executor& engine, Right right, Done done) {
  auto check =
      std::make_shared<SlicedCheck>(std::move(value), slice, worker, engine, std::move(right), std::move(done));
  check->next();
  return check;
}

SlicedCheck::SlicedCheck(LandedValue value, std::size_t slice, base::Executor& worker, base::Executor& engine,
                         Right right, Done done)
    : checker_(std::in_place, std::move(value), slice),
      worker_(worker),
      engine_(engine),
      right_(std::move(right)),
      done_(std::move(done)),
      began_(base::Clock::steady().now()) {}

void SlicedCheck::next() {
  worker_.post([self = shared_from_this()] { self->step(); });
}

void SlicedCheck::step() {
  if (cancelled_.load(std::memory_order_relaxed)) return checker_.reset();
  if (!checker_->step()) return next();
  base::Result<CheckedValue> value = checker_->take();
  checker_.reset();
  base::Result<SharedValue> result =
      value ? base::Result<SharedValue>(std::make_shared<const CheckedValue>(std::move(*value)))
            : base::Result<SharedValue>(value.error());
  Right right = std::move(right_);
  if (result) right(*result);
  engine_.post([done = std::move(done_), result = std::move(result),
                took = base::Clock::steady().now() - began_]() mutable { done(std::move(result), took); });
}

}  // namespace keyferry::transfer
