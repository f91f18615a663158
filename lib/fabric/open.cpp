#include "fabric/open.h"

#include <stdexcept>
#include <utility>

#include "fabric/endpoint_table.h"
#include "fabric/progress.h"
#include "fabric/provider.h"
#include "fabric/registrar.h"

namespace keyferry::fabric {

namespace {

template <typename T>
void answer(base::Executor& back, Callback<T> done, base::Result<T> result) {
  back.post([done = std::move(done), result = std::move(result)]() mutable { done(std::move(result)); });
}

/// Makes an endpoint once, so that what would fail at the first transfer fails at start. Returns the length of its
/// name.
std::size_t probe(Domain& domain) {
  auto probed = TargetEndpoint::open(domain);
  if (!probed) throw std::runtime_error(probed.error().message);
  const std::size_t length = (*probed)->address().size();
  if (auto closed = (*probed)->close(); !closed) throw std::runtime_error(closed.error().message);
  return length;
}

/// A Fabric on libfabric. Its members are declared in the order in which they must be made; the destructor takes them
/// down in the reverse one (blob-rdma spec C27): threads stopped and joined, endpoints with their address books,
/// registrations, queue, domain.
class LibfabricFabric final : public Fabric {
 public:
  LibfabricFabric(std::unique_ptr<Domain> domain, Traits traits)
      : traits_(std::move(traits)),
        domain_(std::move(domain)),
        registrar_(*domain_),
        endpoints_(*domain_),
        progress_(*domain_, traits_.needs_polling) {}

  ~LibfabricFabric() override {
    progress_.stop();
    registrar_.stop();
  }

  const Traits& traits() const override { return traits_; }

  FabricCounters counters() const override {
    FabricCounters counters;
    endpoints_.read(counters);
    registrar_.read(counters);
    counters.cq_errors = progress_.queue_errors();
    counters.queue_lost = progress_.queue_lost();
    counters.owed = progress_.owed();
    return counters;
  }

  void open_endpoint(base::Executor& back, Callback<Endpoint> done) override {
    progress_.post(
        [this, &back, done = std::move(done)]() mutable { answer(back, std::move(done), endpoints_.open()); });
  }

  void insert_peers(EndpointId endpoint, std::vector<std::string> addresses, base::Executor& back,
                    Callback<void> done) override {
    progress_.post([this, endpoint, addresses = std::move(addresses), &back, done = std::move(done)]() mutable {
      answer(back, std::move(done), endpoints_.insert(endpoint, addresses));
    });
  }

  void close_endpoint(EndpointId endpoint, base::Executor& back, Callback<void> done) override {
    progress_.post([this, endpoint, &back, done = std::move(done)]() mutable {
      answer(back, std::move(done), endpoints_.close(endpoint));
    });
  }

  void register_memory(base::MutableBytes memory, base::Executor& back, Callback<Registration> done) override {
    registrar_.post([this, memory, &back, done = std::move(done)]() mutable {
      answer(back, std::move(done), registrar_.add(memory));
    });
  }

  void deregister(RegistrationId registration, base::Executor& back, Callback<void> done) override {
    registrar_.post([this, registration, &back, done = std::move(done)]() mutable {
      answer(back, std::move(done), registrar_.remove(registration));
    });
  }

  void raise_owed() override { progress_.raise(); }
  void lower_owed() override { progress_.lower(); }

 private:
  Traits traits_;
  std::unique_ptr<Domain> domain_;
  Registrar registrar_;
  EndpointTable endpoints_;
  ProgressThread progress_;
};

}  // namespace

std::unique_ptr<Fabric> open_fabric(const FabricOptions& options) {
  std::shared_ptr<const Library> library = Library::load(options.library);
  Provider provider = choose_provider(library, options);
  auto domain = std::make_unique<Domain>(std::move(library), std::move(provider.info), provider.can_sleep);
  provider.traits.address_length = probe(*domain);
  return std::make_unique<LibfabricFabric>(std::move(domain), std::move(provider.traits));
}

}  // namespace keyferry::fabric
