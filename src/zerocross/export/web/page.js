'use strict';

const networks = JSON.parse(document.getElementById('networks').textContent);
const $ = (id) => document.getElementById(id);
const pen = $('draw').getContext('2d', {willReadFrequently: true});
const SIMD = WebAssembly.validate(new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11]));
let active = null;

// ---- networks in WebAssembly ----------------------------------------------------------------------------------------

function decoded(text) {
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function started(network) {
  const bits = new Map();
  const wanted = new Map(network.stored.filter((each) => each.kind === 'bits').map((each) => [each.step, each]));
  let memory = null, watching = false;
  const trace = (step, reals, address) => {
    if (watching && wanted.has(step)) {
      const [channels, height, width] = wanted.get(step).size;
      bits.set(step, new Uint8Array(memory.buffer, address, Math.ceil(channels / 8) * height * width).slice());
    }
  };
  const module = decoded(SIMD ? network.simd : network.plain);
  const {instance} = await WebAssembly.instantiate(module, {env: {trace}});
  const wasm = instance.exports;
  memory = wasm.memory;
  const inputs = network.input_size.reduce((a, b) => a * b), outputs = network.output_size.reduce((a, b) => a * b);
  const run = {
    bits, wanted,
    predict(codes) {
      new Uint8Array(memory.buffer, wasm.bytes(), inputs).set(codes);
      wasm.normalise();
      watching = true;
      wasm.predict();
      watching = false;
      return Array.from(new Float32Array(memory.buffer, wasm.output(), outputs));
    },
    // Browsers reduce the precision of their clocks: time many predictions together.
    milliseconds() {
      let count = 1, elapsed = 0;
      while (elapsed < 20 && count < 100000) {
        count *= elapsed < 2 ? 4 : 2;
        const began = performance.now();
        for (let i = 0; i < count; i++) wasm.predict();
        elapsed = performance.now() - began;
      }
      return elapsed / count;
    },
  };
  return run;
}

// ---- inputs ---------------------------------------------------------------------------------------------------------

function scaledImage(source, width, height, fromX, fromY, fromWidth, fromHeight) {
  // Halve the size step by step: a single large step would skip pixels.
  let canvas = document.createElement('canvas');
  canvas.width = fromWidth; canvas.height = fromHeight;
  canvas.getContext('2d').drawImage(source, fromX, fromY, fromWidth, fromHeight, 0, 0, fromWidth, fromHeight);
  while (canvas.width > 1 && canvas.height > 1 && (canvas.width > width || canvas.height > height)) {
    const next = document.createElement('canvas');
    next.width = Math.max(width, Math.ceil(canvas.width / 2));
    next.height = Math.max(height, Math.ceil(canvas.height / 2));
    const context = next.getContext('2d');
    context.imageSmoothingQuality = 'high';
    context.drawImage(canvas, 0, 0, next.width, next.height);
    canvas = next;
  }
  if (canvas.width !== width || canvas.height !== height) {
    const next = document.createElement('canvas');
    next.width = width; next.height = height;
    next.getContext('2d').drawImage(canvas, 0, 0, width, height);
    canvas = next;
  }
  return canvas;
}

// As in MNIST: scale the bounding box of the ink to 20 x 20, and move its centre of mass to the middle of 28 x 28.
function digitCodes() {
  const {data, width, height} = pen.getImageData(0, 0, 280, 280);
  let left = width, right = -1, top = height, bottom = -1;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (data[4 * (y * width + x)] > 40) {
        left = Math.min(left, x); right = Math.max(right, x); top = Math.min(top, y); bottom = Math.max(bottom, y);
      }
    }
  }
  if (right < 0) return null;
  const wide = right - left + 1, high = bottom - top + 1, size = active.network.input_size[1];
  const inner = Math.round(size * 20 / 28), scale = inner / Math.max(wide, high);
  const w = Math.max(1, Math.round(wide * scale)), h = Math.max(1, Math.round(high * scale));
  const ink = scaledImage($('draw'), w, h, left, top, wide, high).getContext('2d').getImageData(0, 0, w, h).data;
  let mass = 0, sumX = 0, sumY = 0;
  for (let y = 0; y < h; y++) {
    for (let x = 0; x < w; x++) {
      const value = ink[4 * (y * w + x)];
      mass += value; sumX += value * x; sumY += value * y;
    }
  }
  const shiftX = Math.round((size - 1) / 2 - sumX / mass), shiftY = Math.round((size - 1) / 2 - sumY / mass);
  const codes = new Uint8Array(size * size);
  for (let y = 0; y < h; y++) {
    for (let x = 0; x < w; x++) {
      const toX = x + shiftX, toY = y + shiftY;
      if (toX >= 0 && toX < size && toY >= 0 && toY < size) codes[toY * size + toX] = ink[4 * (y * w + x)];
    }
  }
  return codes;
}

// Resize the shorter side to the network's size and crop the centre; channels first.
function photoCodes() {
  const [channels, height, width] = active.network.input_size;
  const small = scaledImage($('draw'), width, height, 0, 0, 280, 280);
  const {data} = small.getContext('2d').getImageData(0, 0, width, height);
  const codes = new Uint8Array(channels * height * width);
  for (let c = 0; c < channels; c++)
    for (let i = 0; i < height * width; i++) codes[c * height * width + i] = data[4 * i + c];
  return codes;
}

async function showImage(blob) {
  const image = await createImageBitmap(blob);
  const side = Math.min(image.width, image.height);
  if (!side) throw new Error('it has no pixels');
  pen.fillStyle = '#000';
  pen.fillRect(0, 0, 280, 280);
  const left = (image.width - side) / 2, top = (image.height - side) / 2;
  const fit = scaledImage(image, 280, 280, left, top, side, side);
  pen.drawImage(fit, 0, 0);
  if (active.network.kind === 'digit') whiteOnBlack();
}

// The network expects white digits on black: invert images with a bright background.
function whiteOnBlack() {
  const picture = pen.getImageData(0, 0, 280, 280), {data} = picture;
  let border = 0, count = 0;
  const grey = (i) => (data[i] * 299 + data[i + 1] * 587 + data[i + 2] * 114) / 1000;
  for (let k = 0; k < 280; k++)
    for (const i of [k, k * 280, 279 * 280 + k, k * 280 + 279]) { border += grey(4 * i); count++; }
  const invert = border / count > 127;
  let low = 255, high = 0;
  for (let i = 0; i < data.length; i += 4) {
    const value = invert ? 255 - grey(i) : grey(i);
    low = Math.min(low, value); high = Math.max(high, value);
    data[i] = value;
  }
  for (let i = 0; i < data.length; i += 4) {
    const value = Math.max(0, (data[i] - low) / Math.max(1, high - low) * 1.5 - 0.5) * 255;
    data[i] = data[i + 1] = data[i + 2] = value;
    data[i + 3] = 255;
  }
  pen.putImageData(picture, 0, 0);
}

// ---- audio: log-mel codes, preprocessed as specified in the packed file ---------------------------------------------

function melFilters(recipe) {
  const knee = 15, step = Math.log(6.4) / 27;
  const toMel = (hz) => hz < 1000 ? hz * 3 / 200 : knee + Math.log(hz / 1000) / step;
  const toHz = (mel) => mel < knee ? mel * 200 / 3 : 1000 * Math.exp(step * (mel - knee));
  const edges = Array.from({length: recipe.mels + 2}, (_, i) => toHz(toMel(recipe.top_hz) * i / (recipe.mels + 1)));
  return Array.from({length: recipe.mels}, (_, m) => {
    const [low, middle, high] = edges.slice(m, m + 3);
    return Float64Array.from({length: recipe.window / 2 + 1}, (_, k) => {
      const hz = k * recipe.rate / recipe.window;
      return Math.max(0, Math.min((hz - low) / (middle - low), (high - hz) / (high - middle))) * 2 / (high - low);
    });
  });
}

function power(frame) {  // |FFT|^2 of a frame whose length is a power of two
  const n = frame.length, re = Float64Array.from(frame), im = new Float64Array(n);
  for (let i = 1, j = 0; i < n; i++) {
    let bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) [re[i], re[j]] = [re[j], re[i]];
  }
  for (let length = 2; length <= n; length <<= 1) {
    for (let first = 0; first < n; first += length) {
      for (let k = 0; k < length / 2; k++) {
        const angle = -2 * Math.PI * k / length, a = first + k, b = a + length / 2;
        const x = re[b] * Math.cos(angle) - im[b] * Math.sin(angle), y = re[b] * Math.sin(angle) + im[b] * Math.cos(angle);
        re[b] = re[a] - x; im[b] = im[a] - y; re[a] += x; im[a] += y;
      }
    }
  }
  return Float64Array.from({length: n / 2 + 1}, (_, k) => re[k] * re[k] + im[k] * im[k]);
}

function logMel(clip, recipe) {  // (samples,) of 16-bit integers -> mels x frames codes
  const filters = melFilters(recipe), {window: size, hop, frames} = recipe;
  const margin = Math.floor(((frames - 1) * hop + size - recipe.samples) / 2);
  const mel = [];
  let loudest = Number.MIN_VALUE;
  for (let t = 0; t < frames; t++) {
    const frame = Float64Array.from({length: size}, (_, i) => {
      const at = t * hop + i - Math.max(margin, 0);
      const value = at >= 0 && at < clip.length ? clip[at] / 32768 : 0;
      return value * (0.5 - 0.5 * Math.cos(2 * Math.PI * i / size));
    });
    const spectrum = power(frame);
    mel.push(filters.map((filter) => filter.reduce((sum, weight, k) => sum + weight * spectrum[k], 0)));
    loudest = Math.max(loudest, ...mel[t]);
  }
  const codes = new Uint8Array(recipe.mels * frames);
  for (let m = 0; m < recipe.mels; m++) {
    for (let t = 0; t < frames; t++) {
      const db = 10 * Math.log10(Math.max(mel[t][m] / loudest, 10 ** (-recipe.floor_db / 10)));
      codes[m * frames + t] = Math.round((db + recipe.floor_db) * (255 / recipe.floor_db));
    }
  }
  return codes;
}

// Cut out the loudest second; pad a shorter clip with silence on both sides.
function clipped(signal, recipe) {
  const out = new Int16Array(recipe.samples), size = recipe.samples;
  let first = 0;
  if (signal.length > size) {
    let energy = 0, best = 0;
    for (let i = 0; i < signal.length; i++) {
      energy += signal[i] ** 2 - (i >= size ? signal[i - size] ** 2 : 0);
      if (i >= size - 1 && energy > best) { best = energy; first = i - size + 1; }
    }
  }
  const part = signal.subarray(first, first + size), at = Math.floor((size - part.length) / 2);
  for (let i = 0; i < part.length; i++) out[at + i] = Math.max(-32768, Math.min(32767, Math.round(part[i] * 32767)));
  return out;
}

async function classifyAudio(data) {  // the bytes of an audio file
  const recipe = active.network.preprocessing.audio;
  const {length, duration} = await new OfflineAudioContext(1, 1, recipe.rate).decodeAudioData(data.slice(0));
  if (!length) throw new Error('it contains no audio');
  const context = new OfflineAudioContext(1, Math.max(1, Math.round(duration * recipe.rate)), recipe.rate);
  const source = context.createBufferSource();
  source.buffer = await context.decodeAudioData(data);
  source.connect(context.destination);
  source.start();
  const codes = logMel(clipped((await context.startRendering()).getChannelData(0), recipe), recipe);
  showSpectrum(codes, recipe);
  classify(codes);
}

function showSpectrum(codes, recipe) {
  const {mels, frames} = recipe, picture = new ImageData(frames, mels);
  for (let m = 0; m < mels; m++) {
    for (let t = 0; t < frames; t++) {
      const at = 4 * ((mels - 1 - m) * frames + t), value = codes[m * frames + t];
      picture.data.set([value, value * value / 255, 64 + value * 0.4, 255], at);
    }
  }
  const small = document.createElement('canvas');
  small.width = frames; small.height = mels;
  small.getContext('2d').putImageData(picture, 0, 0);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small, 0, 0, 280, 280);
  $('hint').textContent = '';
}

// ---- results --------------------------------------------------------------------------------------------------------

function classify(codes) {
  const scores = active.run.predict(codes), top = Math.max(...scores);
  const shares = scores.map((score) => Math.exp(score - top)), sum = shares.reduce((a, b) => a + b);
  const best = scores.indexOf(top);
  $('answer').textContent = active.network.classes[best];
  $('share').textContent = `${(100 * shares[best] / sum).toFixed(1)} %`;
  [...$('classes').children].forEach((row, i) => {
    row.classList.toggle('best', i === best);
    row.querySelector('.bar').style.width = `${100 * shares[i] / sum}%`;
    row.querySelector('.number').textContent = `${(100 * shares[i] / sum).toFixed(1)} %`;
  });
  fact('time', `${format(active.run.milliseconds())} ms per prediction, ${SIMD ? 'with' : 'without'} SIMD`);
  showBits();
}

function format(number) { return number >= 10 ? number.toFixed(1) : number.toPrecision(2); }

function fact(key, text) { $(`fact-${key}`).textContent = text; }

function showBits() {
  const stored = active.run.wanted.get(Number($('layer').value)), canvas = $('bits');
  if (!stored) return;
  const [channels, height, width] = stored.size, data = active.run.bits.get(stored.step), pitch = Math.ceil(channels / 8);
  const flat = height * width === 1;
  $('legend').textContent = flat ? 'Each dot is a bit: filled for +1, empty for −1.' :
    'Each square is a channel, each dot a bit: filled for +1, empty for −1.';
  const rows = flat ? 1 : height, tiles = flat ? 1 : channels;
  const columns = flat ? Math.min(channels, 64) : width, lines = flat ? Math.ceil(channels / columns) : rows;
  const room = canvas.parentElement.clientWidth - 34;
  const dot = flat ? Math.max(4, Math.min(14, Math.floor(room / columns))) : Math.max(1, Math.min(6, Math.round(72 / width)));
  const most = Math.max(1, Math.min(tiles, Math.floor((room + 4) / (columns * dot + 4))));
  const across = Math.ceil(tiles / Math.ceil(tiles / most));  // rows of the same length
  canvas.width = across * (columns * dot + 4) - 4;
  canvas.height = Math.ceil(tiles / across) * (lines * dot + 4) - 4;
  const context = canvas.getContext('2d'), style = getComputedStyle(document.documentElement);
  const on = style.getPropertyValue('--on'), off = style.getPropertyValue('--off');
  let ones = 0;
  const paint = (x, y, bit) => {
    ones += bit;
    context.fillStyle = bit ? on : off;
    context.fillRect(x, y, dot > 3 ? dot - 1 : dot, dot > 3 ? dot - 1 : dot);
  };
  for (let c = 0; c < channels; c++) {
    for (let i = 0; i < height * width; i++) {
      const bit = data ? (data[i * pitch + (c >> 3)] >> (c & 7)) & 1 : 0;
      if (flat) {
        paint((c % columns) * dot, Math.floor(c / columns) * dot, bit);
      } else {
        const left = (c % across) * (columns * dot + 4), top = Math.floor(c / across) * (lines * dot + 4);
        paint(left + (i % width) * dot, top + Math.floor(i / width) * dot, bit);
      }
    }
  }
  const total = channels * height * width;
  $('about').textContent = `${stored.size.join(' × ')} = ${total.toLocaleString('en')} bits` +
    (data ? `, ${(100 * ones / total).toFixed(0)} % are +1` : '');
}

// ---- the page -------------------------------------------------------------------------------------------------------

const HINTS = {digit: 'Draw a digit here', photo: 'Drop an image here', voice: 'Hold the button and say a digit'};
const ACCEPT = {digit: 'image/*', photo: 'image/*', voice: 'audio/*'};

function reset() {
  pen.fillStyle = '#000';
  pen.fillRect(0, 0, 280, 280);
  $('hint').textContent = HINTS[active.network.kind];
  $('answer').textContent = '–';
  $('share').textContent = '';
  $('message').textContent = '';
  fact('time', '–');
  active.run.bits.clear();
  for (const row of $('classes').children) {
    row.classList.remove('best');
    row.querySelector('.bar').style.width = 0;
    row.querySelector('.number').textContent = '';
  }
  showBits();
}

function element(tag, text, className) {
  const created = document.createElement(tag);
  created.textContent = text;
  if (className) created.className = className;
  return created;
}

async function select(network) {
  network.run ||= await started(network);
  active = {network, run: network.run};
  for (const tab of $('tabs').children) tab.setAttribute('aria-selected', String(tab.dataset.kind === network.kind));
  $('task').textContent = network.task;
  $('classes').classList.toggle('short', network.classes.every((name) => name.length < 3));
  $('record').hidden = network.kind !== 'voice';
  $('file').accept = ACCEPT[network.kind];
  $('draw').classList.toggle('pen', network.kind === 'digit');
  $('classes').replaceChildren(...network.classes.map((name) => {
    const row = element('li', '');
    const track = element('div', '', 'track');
    track.append(element('div', '', 'bar'));
    row.append(element('span', name), track, element('span', '', 'number'));
    return row;
  }));
  $('facts').replaceChildren();
  for (const [key, title, text] of [
    ['time', 'Time', '–'],
    ['size', 'Model', `${(network.bytes / 1000).toFixed(1)} KB; as float32 ${(network.float_bytes / 1000).toFixed(0)} KB`],
    ['weights', 'Weights', `${network.binary.toLocaleString('en')} of 1 bit, ${network.real.toLocaleString('en')} real`],
    ['about', 'Network', network.about],
  ]) {
    const value = element('dd', text);
    value.id = `fact-${key}`;
    $('facts').append(element('dt', title), value);
  }
  $('layer').replaceChildren(...[...active.run.wanted.values()].map((stored) => {
    const option = element('option', stored.value);
    option.value = stored.step;
    return option;
  }));
  reset();
}

let stroke = null;

function point(event) {
  const box = $('draw').getBoundingClientRect();
  return [(event.clientX - box.left) * 280 / box.width, (event.clientY - box.top) * 280 / box.height];
}

function drawTo(x, y) {
  pen.strokeStyle = '#fff';
  pen.lineWidth = 22;
  pen.lineCap = pen.lineJoin = 'round';
  pen.beginPath();
  pen.moveTo(...stroke);
  pen.lineTo(x, y);
  pen.stroke();
  stroke = [x, y];
}

$('draw').addEventListener('pointerdown', (event) => {
  if (active.network.kind !== 'digit') return;
  $('draw').setPointerCapture(event.pointerId);
  $('hint').textContent = '';
  stroke = point(event);
  drawTo(stroke[0] + 0.1, stroke[1]);
});
$('draw').addEventListener('pointermove', (event) => { if (stroke) drawTo(...point(event)); });
for (const end of ['pointerup', 'pointercancel']) {
  $('draw').addEventListener(end, () => {
    if (!stroke) return;
    stroke = null;
    const codes = digitCodes();
    if (codes) classify(codes);
  });
}
$('clear').addEventListener('click', reset);
$('layer').addEventListener('change', showBits);
window.addEventListener('resize', () => active && showBits());
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => active && showBits());

async function classifyFile(file) {
  $('message').textContent = '';
  try {
    if (active.network.kind === 'voice') {
      await classifyAudio(await file.arrayBuffer());
    } else {
      await showImage(file);
      $('hint').textContent = '';
      const codes = active.network.kind === 'digit' ? digitCodes() : photoCodes();
      if (codes) classify(codes);
    }
  } catch (error) {
    const kind = active.network.kind === 'voice' ? 'audio' : 'an image';
    $('message').textContent = `${file.name || 'The recording'} cannot be read as ${kind}: ${error.message}`;
  }
}

$('file').addEventListener('change', () => {
  if ($('file').files[0]) classifyFile($('file').files[0]);
  $('file').value = '';
});
document.addEventListener('dragover', (event) => { event.preventDefault(); $('pad').classList.add('over'); });
document.addEventListener('dragleave', () => $('pad').classList.remove('over'));
document.addEventListener('drop', (event) => {
  event.preventDefault();
  $('pad').classList.remove('over');
  if (event.dataTransfer.files[0]) classifyFile(event.dataTransfer.files[0]);
});

let recorder = null;

async function record() {
  if (recorder) return;
  $('message').textContent = '';
  recorder = {stopped: false};
  const current = recorder;
  try {
    const stream = await navigator.mediaDevices.getUserMedia({audio: true});
    const tape = new MediaRecorder(stream), parts = [];
    tape.ondataavailable = (event) => parts.push(event.data);
    tape.onstop = () => {
      stream.getTracks().forEach((track) => track.stop());
      classifyFile(new Blob(parts, {type: tape.mimeType}));
    };
    current.stop = () => setTimeout(() => tape.stop(), 150);  // record a little longer, to catch the end of the word
    tape.start();
    $('record').classList.add('on');
    if (current.stopped) finish(current);
  } catch (error) {
    recorder = null;
    $('message').textContent = `No microphone: ${error.message}. Drop an audio file instead.`;
  }
}

function finish(current) {
  recorder = null;
  $('record').classList.remove('on');
  current.stop();
}

function release() {
  if (!recorder) return;
  if (recorder.stop) finish(recorder);
  else recorder.stopped = true;
}

$('record').addEventListener('pointerdown', record);
$('record').addEventListener('keydown', (event) => { if (event.key === ' ' || event.key === 'Enter') record(); });
for (const end of ['pointerup', 'pointerleave', 'pointercancel', 'keyup', 'blur']) $('record').addEventListener(end, release);

for (const network of networks) {
  const tab = element('button', network.title);
  tab.dataset.kind = network.kind;
  tab.setAttribute('role', 'tab');
  tab.addEventListener('click', () => select(network));
  $('tabs').append(tab);
}
const ready = select(networks[0]);
