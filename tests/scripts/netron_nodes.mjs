// What Netron makes of files, by its own parser, outside of a browser: prints for each its format and its graphs' nodes,
// inputs and outputs, as JSON. test_viewers.py calls it.
//
// usage: node netron_nodes.mjs NETRON FILE...   NETRON: a folder with Netron's modules
import * as fs from "node:fs/promises";
import * as path from "node:path";
import {pathToFileURL} from "node:url";

const [folder, ...files] = process.argv.slice(2);
const load = id => import(pathToFileURL(path.join(folder, `${id}.js`)));
const {BinaryStream} = await load("base");
const {ModelFactoryService} = await load("view");

const fail = error => { throw error; };
const host = {require: load, environment: () => null, exception: fail, event() {}, document: {}};
const names = values => values.map(value => value.name);

async function open(file) {
  const context = {
    identifier: path.basename(file),
    stream: new BinaryStream(await fs.readFile(file)),
    require: load,
    asset: name => fs.readFile(path.join(folder, name), "utf-8"),
    fetch: async name => new BinaryStream(await fs.readFile(path.join(path.dirname(file), name))),
    error: fail,
  };
  const model = await new ModelFactoryService(host).open(context);
  const graphs = (model.modules || model.graphs).map(graph => ({
    nodes: graph.nodes.map(node => node.type.name), inputs: names(graph.inputs), outputs: names(graph.outputs)}));
  return {format: model.format, graphs};
}

const seen = [];
for (const file of files) seen.push(await open(file));
console.log(JSON.stringify(seen));
