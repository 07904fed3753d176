// onnxruntime.js THREADS RUNS MODEL...: times ONNX Runtime on models, one JSON line a model:
// {"model", "load_ms", "first_ms", "median_ms", "min_ms"}. Inputs are filled as by `ouro bench`: dynamic dimensions
// are 1, floats uniform in [-1, 1). Run by tests/bench/compare.sh, which installs onnxruntime-node.
const runtime = require('onnxruntime-node');

function random(state) { // a 32-bit xorshift: the values do not matter, only that none is special
  state.x ^= state.x << 13; state.x ^= state.x >>> 17; state.x ^= state.x << 5;
  return (state.x >>> 0) / 4294967296;
}

function fill(meta, state) {
  const dims = meta.shape.map((d) => (typeof d === 'number' && d >= 0 ? d : 1));
  const count = dims.reduce((a, b) => a * b, 1);
  switch (meta.type) {
    case 'float32': return new runtime.Tensor('float32', Float32Array.from({length: count}, () => 2 * random(state) - 1), dims);
    case 'int64': return new runtime.Tensor('int64', BigInt64Array.from({length: count}, () => BigInt(Math.floor(4 * random(state)))), dims);
    case 'int32': return new runtime.Tensor('int32', Int32Array.from({length: count}, () => Math.floor(4 * random(state))), dims);
    case 'uint8': return new runtime.Tensor('uint8', Uint8Array.from({length: count}, () => Math.floor(4 * random(state))), dims);
    case 'int8': return new runtime.Tensor('int8', Int8Array.from({length: count}, () => Math.floor(4 * random(state))), dims);
    case 'bool': return new runtime.Tensor('bool', Uint8Array.from({length: count}, () => 1), dims);
    default: throw new Error('no random input of type ' + meta.type);
  }
}

async function measure(path, threads, runs) {
  const now = () => Number(process.hrtime.bigint()) / 1e6;
  const start = now();
  const session = await runtime.InferenceSession.create(path, {intraOpNumThreads: threads, interOpNumThreads: 1});
  const loaded = now();
  const state = {x: 1}, feeds = {};
  for (const meta of session.inputMetadata) feeds[meta.name] = fill(meta, state);
  const times = [];
  const begin = now();
  await session.run(feeds);
  const first = now() - begin;
  for (let i = 0; i < runs; i++) {
    const t = now();
    await session.run(feeds);
    times.push(now() - t);
  }
  times.sort((a, b) => a - b);
  return {model: path, load_ms: loaded - start, first_ms: first, median_ms: times[times.length >> 1], min_ms: times[0]};
}

(async () => {
  const [threads, runs, ...models] = process.argv.slice(2);
  for (const model of models) console.log(JSON.stringify(await measure(model, Number(threads), Number(runs))));
})().catch((error) => { console.error(String(error)); process.exit(1); });
