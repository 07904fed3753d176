// decoder.js MODEL THREADS POSITION...: one token after another through ONNX Runtime, which gets its outputs back as inputs; prints the
// median time of the 24 tokens around each position, in milliseconds. Run by tests/bench/decoder.sh.
const runtime = require('onnxruntime-node');

(async () => {
  const [model, threads, ...positions] = process.argv.slice(2);
  const session = await runtime.InferenceSession.create(model, {intraOpNumThreads: Number(threads), interOpNumThreads: 1});
  const last = Math.max(...positions.map(Number)) + 12, times = [];
  let caches = {};
  for (const meta of session.inputMetadata) {
    if (!meta.name.startsWith('past')) continue;
    const dims = meta.shape.map((d, i) => (typeof d === 'number' ? d : i === 0 ? 1 : 0));
    caches[meta.name] = new runtime.Tensor('float32', new Float32Array(0), dims);
  }
  for (let t = 0; t < last; t++) {
    const feeds = {...caches};
    feeds.input_ids = new runtime.Tensor('int64', BigInt64Array.from([BigInt(t * 7919 % 8000)]), [1, 1]);
    feeds.position_ids = new runtime.Tensor('int64', BigInt64Array.from([BigInt(t)]), [1, 1]);
    const begin = process.hrtime.bigint();
    const made = await session.run(feeds);
    times.push(Number(process.hrtime.bigint() - begin) / 1e6);
    for (const name of Object.keys(caches)) caches[name] = made[name.replace('past', 'present')];
  }
  for (const p of positions) {
    const around = times.slice(Math.max(0, p - 12), Number(p) + 12).sort((a, b) => a - b);
    console.log(p, around[around.length >> 1].toFixed(3));
  }
})().catch((error) => { console.error(String(error)); process.exit(1); });
