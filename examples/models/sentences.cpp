// Sentences with the same meaning: embeddings of all-MiniLM-L6-v2, and how similar each is to the first.
//
//   sentences FOLDER "How do I bake bread?" "A recipe for a loaf" "The train is late"
//
// FOLDER holds model.safetensors and vocab.txt, as Hugging Face has them under sentence-transformers/all-MiniLM-L6-v2. With
// --save FILE.npz the embeddings are written.
#include <iostream>

#include "bert.h"
#include "names.h"
#include "wordpiece.h"

using namespace rill;

int main(int argc, char** argv) try {
  std::vector<std::string> texts(argv + 1, argv + argc);
  std::string out;
  if (texts.size() > 2 && texts[0] == "--save") {
    out = texts[1];
    texts.erase(texts.begin(), texts.begin() + 2);
  }
  if (texts.size() < 2) {
    std::cerr << "usage: sentences [--save FILE.npz] FOLDER SENTENCE...\n";
    return 2;
  }
  const std::string folder = texts[0];
  texts.erase(texts.begin());

  models::Bert bert({.width = 384, .layers = 6, .heads = 12, .hidden = 1536, .initializer = nn::constant(0)});
  load_weights(bert, folder + "/model.safetensors", {.rules = models::bert_of_transformers()});
  const models::WordPiece tokenizer(folder + "/vocab.txt");

  const models::WordPiece::Batch batch = tokenizer(texts);
  const auto embed = function("embed", [&](const Tensor& ids, const Tensor& mask) { return bert.sentence(ids, mask); });
  const Tensor vectors = embed(batch.ids, batch.mask);
  if (!out.empty()) save(out, NamedTensors{{"embeddings", vectors}, {"ids", batch.ids}, {"mask", batch.mask}});
  const std::vector<float> likeness = matmul(vectors, vectors(0)).to_vector<float>();
  for (size_t i = 0; i < texts.size(); ++i) std::cout << likeness[i] << "  " << texts[i] << "\n";
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
