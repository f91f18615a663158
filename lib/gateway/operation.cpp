#include "gateway/operation.h"

#include "gateway/session.h"

namespace keyferry::gateway {

Operation::Operation(Session& session) : session_(session), keep_(session.shared_from_this()) {}
Operation::~Operation() = default;

}  // namespace keyferry::gateway
