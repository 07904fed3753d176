// random_operators.js FOLDER: runs ONNX Runtime on each case of random_operators.py, on one thread and without its graph
// optimizations, and writes result.json beside it: the outputs' types and extents, with their bytes in files, or its error.
const fs = require('fs');
const path = require('path');
const runtime = require('onnxruntime-node');

const arrays = {
  float32: ['float32', Float32Array], float64: ['float64', Float64Array], float16: ['float16', Uint16Array],
  int8: ['int8', Int8Array], int16: ['int16', Int16Array], int32: ['int32', Int32Array], int64: ['int64', BigInt64Array],
  uint8: ['uint8', Uint8Array], uint16: ['uint16', Uint16Array], uint32: ['uint32', Uint32Array],
  uint64: ['uint64', BigUint64Array], bool: ['bool', Uint8Array],
};

function read(folder, input) {
  const [type, Kind] = arrays[input.type];
  const bytes = fs.readFileSync(path.join(folder, input.file));
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  let data = new Kind(buffer);
  if (type === 'float16' && typeof Float16Array !== 'undefined') data = new Float16Array(buffer);
  return new runtime.Tensor(type, data, input.dims);
}

async function run(folder) {
  const test = JSON.parse(fs.readFileSync(path.join(folder, 'case.json')));
  const session = await runtime.InferenceSession.create(path.join(folder, 'model.onnx'),
    {intraOpNumThreads: 1, interOpNumThreads: 1, graphOptimizationLevel: 'disabled', logSeverityLevel: 4});
  const feeds = {};
  for (const input of test.inputs) feeds[input.name] = read(folder, input);
  const results = await session.run(feeds);
  const outputs = session.outputNames.map((name, i) => {
    const file = `output_${i}.raw`;
    const data = results[name].data;
    fs.writeFileSync(path.join(folder, file), Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    return {file, type: results[name].type, dims: results[name].dims};
  });
  await session.release();
  return {outputs};
}

(async () => {
  const top = process.argv[2];
  for (const name of fs.readdirSync(top).sort()) {
    const folder = path.join(top, name);
    const written = path.join(folder, 'result.json');
    if (!fs.existsSync(path.join(folder, 'case.json')) || fs.existsSync(written)) continue;
    // A case that ends the process has this answer, and the next process goes on after it.
    fs.writeFileSync(written, JSON.stringify({error: 'crashed'}));
    let result;
    try {
      result = await run(folder);
    } catch (error) {
      result = {error: String(error.message).slice(0, 300)};
    }
    fs.writeFileSync(written, JSON.stringify(result));
  }
})();
