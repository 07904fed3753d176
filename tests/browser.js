// SPDX-License-Identifier: Apache-2.0
// browser.js FOLDER: uses the pages that browser.sh has written; each check says what it saw. See there.
'use strict';
const {chromium} = require('playwright-core');
const folder = process.argv[2];
let checks = 0, failures = 0;

function check(holds, what) {
    checks++;
    if (!holds) failures++;
    console.log((holds ? 'ok    ' : 'FAILED ') + what);
}

async function open(browser, name, width, height) {
    const page = await browser.newPage({viewport: {width, height}});
    page.errors = [];
    page.on('pageerror', (e) => page.errors.push(String(e)));
    page.on('console', (m) => { if (m.type() === 'error') page.errors.push(m.text()); });
    page.on('request', (r) => { if (!r.url().startsWith('file:')) page.errors.push('asks for ' + r.url()); });
    const start = Date.now();
    await page.goto('file://' + folder + '/' + name);
    await drawn(page);
    page.seconds = (Date.now() - start) / 1000;
    return page;
}

// Two frames later everything that was asked for is drawn.
const drawn = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
const picture = (page) => page.evaluate(() => document.getElementById('c').toDataURL());
const text = (page, selector) => page.evaluate((s) => document.querySelector(s).textContent, selector);

async function find(page, what) {
    await page.fill('#find', what);
    await drawn(page);
    const found = await page.$$eval('#found li', (all) => all.map((li) => li.textContent));
    const small = await page.$('#found small');
    return {count: small ? parseInt(await small.textContent(), 10) : -1, found};
}

async function network(browser) {
    const page = await open(browser, 'mobilenet_v2.html', 1400, 900);
    check(/MiB/.test(await text(page, '#sum')), 'a network: its memory is told: ' + (await text(page, '#sum')));
    const whole = await picture(page);
    await page.screenshot({path: folder + '/network.png'});

    const conv = await find(page, 'conv');
    check(conv.count > 10 && conv.found.length > 0, 'search: "conv" finds ' + conv.count);
    check((await picture(page)) !== whole, 'search: what is not found is dimmed');
    check((await find(page, 'no tensor has this name')).count === 0, 'search: what is not there is not found');
    await find(page, 'conv');

    await page.click('#found li');
    await drawn(page);
    const first = await text(page, '#about');
    check(first.length > 10 && !first.startsWith('Click'), 'select: ' + JSON.stringify(first.slice(0, 60)));
    const heads = await page.$$eval('#links h2', (all) => all.map((h) => h.textContent));
    check(heads.some((h) => h.startsWith('These bytes hold')), 'follow: the list of what the bytes hold is there');
    const marked = await page.$$eval('#links li', (all) => all.filter((li) => /selected/.test(li.textContent)).length);
    check(marked === 1, 'follow: the selected one is marked in it');
    const others = await page.$$('#links ul:last-child li');
    check(others.length > 1, 'follow: the bytes hold ' + others.length + ' tensors');
    await others[others.length - 1].click();
    await drawn(page);
    const second = await text(page, '#about');
    check(second !== first, 'follow: the next tensor of these bytes is selected: ' + JSON.stringify(second.slice(0, 60)));
    await page.screenshot({path: folder + '/followed.png'});

    await find(page, '');
    await page.click('#fit');
    await drawn(page);
    const before = await picture(page);
    await page.mouse.move(500, 500);
    for (let i = 0; i < 6; i++) await page.mouse.wheel(0, -300);
    await drawn(page);
    const zoomed = await picture(page);
    check(zoomed !== before, 'zoom: the wheel makes it larger');
    await page.mouse.down();
    await page.mouse.move(300, 450, {steps: 4});
    await page.mouse.up();
    await drawn(page);
    check((await picture(page)) !== zoomed, 'zoom: dragging moves it');
    await page.screenshot({path: folder + '/zoomed.png'});
    await page.click('#fit');
    await drawn(page);
    check((await picture(page)) === before, 'zoom: "whole picture" is the whole picture again');
    check(/^Live in step \d+/.test(await text(page, '#livehead')), 'peak: ' + (await text(page, '#livehead')));
    const live = await page.$$eval('#live li b', (all) => all.map((b) => b.textContent));
    check(live.length > 1, 'peak: the tensors there are ranked: ' + live.slice(0, 3).join(', '));
    check(page.errors.length === 0, 'a network: no error, nothing is asked for elsewhere ' + page.errors.join('; '));
    await page.close();
}

async function loop(browser) {
    const page = await open(browser, 'greedy_decoding.html', 1200, 800);
    await page.screenshot({path: folder + '/loop.png'});
    const spans = await page.evaluate(() => JSON.parse(document.getElementById('data').textContent).spans.length);
    check(spans >= 2, 'a loop: ' + spans + ' spans of the loop and its iterations');
    check(page.errors.length === 0, 'a loop: no error ' + page.errors.join('; '));
    await page.close();
}

async function smallWindow(browser) {
    const page = await open(browser, 'mobilenet_v2.html', 360, 640);
    const seen = await page.evaluate(() => {
        const c = document.getElementById('c').getBoundingClientRect(), a = document.querySelector('aside').getBoundingClientRect();
        return {wide: document.documentElement.scrollWidth, canvas: [c.width, c.height], aside: [a.top, a.height], end: c.bottom};
    });
    check(seen.wide <= 360, 'small window: nothing sticks out to the right (' + seen.wide + ' pixels)');
    check(seen.canvas[0] > 300 && seen.canvas[1] > 200, 'small window: the picture has ' + seen.canvas.join(' x '));
    check(seen.aside[0] >= seen.end - 1 && seen.aside[1] > 60, 'small window: the lists stand below it');
    const box = await (await page.$('#c')).boundingBox();
    // Somewhere in the picture there is a box.
    for (let at = 0; at < 100 && (await text(page, '#about')).startsWith('Click'); at++) {
        await page.mouse.click(box.x + box.width * (0.25 + at % 10 * 0.07), box.y + box.height * (0.1 + Math.floor(at / 10) * 0.08));
        await drawn(page);
    }
    check(!(await text(page, '#about')).startsWith('Click'), 'small window: a box can be selected');
    await page.screenshot({path: folder + '/small.png'});
    await page.close();
}

async function many(browser) {
    const page = await open(browser, 'many.html', 1400, 900);
    check(page.seconds < 10, '20,000 tensors: drawn after ' + page.seconds.toFixed(2) + ' s');
    let start = Date.now();
    const found = await find(page, 'tensor/1999');
    check(found.count === 11, '20,000 tensors: "tensor/1999" finds ' + found.count);
    await page.click('#found li');
    await drawn(page);
    check((await page.$$('#links li')).length > 1, '20,000 tensors: one is followed');
    for (let i = 0; i < 5; i++) await page.mouse.wheel(0, -300);
    await page.mouse.move(600, 500);
    for (let i = 0; i < 5; i++) await page.mouse.wheel(0, -300);
    await drawn(page);
    const seconds = (Date.now() - start) / 1000;
    check(seconds < 10, '20,000 tensors: search, selection and zoom take ' + seconds.toFixed(2) + ' s');
    await page.screenshot({path: folder + '/many.png'});
    check(page.errors.length === 0, '20,000 tensors: no error ' + page.errors.join('; '));
    await page.close();
}

(async () => {
    const browser = await chromium.launch({executablePath: '/usr/bin/chromium', args: ['--no-sandbox']});
    for (const part of [network, loop, smallWindow, many]) await part(browser);
    await browser.close();
    console.log(checks + ' checks, ' + failures + ' failed');
    process.exit(failures ? 1 : 0);
})();
