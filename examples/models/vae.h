// A variational autoencoder (Kingma, Welling: Auto-Encoding Variational Bayes, 2013) of vectors in [0, 1].
#pragma once
#include <rill/nn.h>
#include <rill/rill.h>

namespace models {
using namespace rill;

struct Vae {
  explicit Vae(int64_t size = 784, int64_t hidden = 400, int64_t latent = 20)
      : encoder(size, hidden, {.activation = relu}),
        mean_of(hidden, latent),
        log_variance_of(hidden, latent),
        decoder(latent, hidden, {.activation = relu}),
        output(hidden, size) {}
  // Logits of the decoded mean of x's code.
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    return decode(mean_of(encoder(x, call), call), call);
  }
  Tensor decode(const Tensor& z, const nn::Call& call = {}) const { return output(decoder(z, call), call); }
  // Appendix B: the mean over the examples of the negative evidence lower bound. Codes are drawn.
  Tensor loss(const Tensor& x, const nn::Call& call = nn::Mode::training) const {
    const Tensor h = encoder(x, call), mu = mean_of(h, call), log_variance = log_variance_of(h, call);
    const Tensor z = mu + exp(log_variance / 2) * random::normal(mu.shape());
    const Tensor divergence = sum(square(mu) + exp(log_variance) - 1 - log_variance, -1) / 2;
    return mean(sum(sigmoid_cross_entropy(decode(z, call), x), -1) + divergence);
  }
  RILL_LAYER(Vae, encoder, mean_of, log_variance_of, decoder, output)

  nn::Dense encoder, mean_of, log_variance_of, decoder, output;
};

}  // namespace models
