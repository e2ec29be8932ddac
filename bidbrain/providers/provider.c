/* See provider.h. */
#include "bidbrain/providers/provider.h"

void provider_close(struct provider *provider) {
    if (provider != NULL) {
        provider->methods->close(provider);
    }
}

int provider_fd(const struct provider *provider) {
    return provider->methods->fd(provider);
}

int provider_wait_ms(struct provider *provider) {
    return provider->methods->wait_ms(provider);
}

void provider_step(struct provider *provider) {
    provider->methods->step(provider);
}

void provider_prices(struct provider *provider, int64_t since) {
    provider->methods->prices(provider, since);
}

void provider_launch(struct provider *provider, const struct provider_launch *launch) {
    provider->methods->launch(provider, launch);
}

void provider_cancel(struct provider *provider, const char *token) {
    provider->methods->cancel(provider, token);
}

void provider_terminate(struct provider *provider, const char *const *ids, size_t count) {
    provider->methods->terminate(provider, ids, count);
}

void provider_list(struct provider *provider) {
    provider->methods->list(provider);
}
