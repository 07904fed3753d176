#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""scale.py [OPTION...]: seconds and memory of `ouro compile` against the size of a model, to see that no pass grows faster than
n log n in nodes, carried values, branches or nesting. The models are written here, without any package.

    scale.py                          all kinds, 1,000, 10,000 and 100,000; nesting at 10, 45 and 90
    scale.py -k chain,ifs -n 1000,2000,4000
    scale.py --svg scale.svg          draws the curves as well

A line: kind, size, seconds, megabytes, and the exponents of growth since the line before: 1 is linear, 2 is quadratic. What is
refused says why; what takes longer than --seconds, or more than --megabytes, is ended, and larger sizes of its kind are left
out. Ends with status 1 when an exponent is above --exponent where the times are long enough to be told."""
import argparse
import math
import os
import resource
import subprocess
import sys
import tempfile

FLOAT, INT64, BOOL = 1, 7, 9

# ---- ONNX, as far as it is needed: fields of protocol buffers ------------------------------------------------------


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def value_info(name, kind, shape):
    dims = b''.join(field(1, field(1, d)) for d in shape)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, dims)))


def tensor(name, kind, shape, integers):
    data = b''.join(n.to_bytes(8 if kind == INT64 else 1, 'little', signed=kind == INT64) for n in integers)
    return b''.join(field(1, d) for d in shape) + field(2, kind) + field(8, name) + field(9, data)


def attribute(name, value):
    if isinstance(value, bytes):
        return field(1, name) + field(6, value) + field(20, 5)
    return field(1, name) + field(3, value) + field(20, 2)


def node(operator, inputs, outputs, **attributes):
    return field(1, b''.join(field(1, i) for i in inputs) + b''.join(field(2, o) for o in outputs) + field(4, operator) +
                 b''.join(field(5, attribute(*a)) for a in attributes.items()))


def graph(nodes, inputs, outputs, constants=()):
    return b''.join(nodes) + field(2, 'g') + b''.join(field(5, c) for c in constants) + \
        b''.join(field(11, value_info(*i)) for i in inputs) + b''.join(field(12, value_info(*o)) for o in outputs)


def model(main):
    return field(1, 8) + field(7, main) + field(8, field(1, '') + field(2, 17))


# ---- kinds of models ----------------------------------------------------------------------------------------------

X = ('x', FLOAT, [64])
TRIPS, GO = ('trips', INT64, []), ('go', BOOL, [])


def relu(a, b):
    return node('Relu', [a], [b])


def chain(n):
    """Relu after Relu."""
    names = ['x'] + ['v%d' % i for i in range(n)]
    return graph([relu(*names[i:i + 2]) for i in range(n)], [X], [(names[-1], FLOAT, [64])])


def fan(n):
    """One value read by n operators, whose results are added in pairs."""
    names = ['f%d' % i for i in range(n)]
    nodes = [relu('x', name) for name in names]
    while len(names) > 1:
        pairs = [('%s_%d' % (names[i][:12], len(nodes) + i), names[i:i + 2]) for i in range(0, len(names) - 1, 2)]
        nodes += [node('Add', pair, [name]) for name, pair in pairs]
        names = [name for name, _ in pairs] + (names[-1:] if len(names) % 2 else [])
    return graph(nodes, [X], [(names[0], FLOAT, [64])])


def apart(n):
    """n chains of one operator, each from an input to an output of its own."""
    return graph([relu('x%d' % i, 'y%d' % i) for i in range(n)], [('x%d' % i, FLOAT, [64]) for i in range(n)],
                 [('y%d' % i, FLOAT, [64]) for i in range(n)])


def skips(n):
    """A chain where each step also adds what was made ten steps before."""
    names = ['x'] + ['v%d' % i for i in range(n)]
    return graph([node('Add', [names[i], names[max(0, i - 10)]], [names[i + 1]]) for i in range(n)], [X],
                 [(names[-1], FLOAT, [64])])


def slices(n):
    """A tensor split into n parts, and put together again from what is made of them."""
    return graph([node('Split', ['a'], ['s%d' % i for i in range(n)], axis=0)] +
                 [relu('s%d' % i, 't%d' % i) for i in range(n)] +
                 [node('Concat', ['t%d' % i for i in range(n)], ['y'], axis=0)],
                 [('a', FLOAT, [16 * n])], [('y', FLOAT, [16 * n])])


def loop(outputs, initials, body, scanned=()):
    return node('Loop', ['trips', 'go'] + list(initials) + list(scanned), outputs, body=body)


def body_of(nodes, carried, replacements, stacked=()):
    return graph([node('Identity', ['again'], ['again_out'])] + nodes,
                 [('i', INT64, []), ('again', BOOL, [])] + [(c, FLOAT, [64]) for c in carried],
                 [('again_out', BOOL, [])] + [(r, FLOAT, [64]) for r in list(replacements) + list(stacked)])


def carries(n, nodes, replacements):
    """A loop that carries c0, c1, ...; each begins with an input of its own."""
    carried = ['c%d' % i for i in range(n)]
    return graph([loop(['y%d' % i for i in range(n)], ['x%d' % i for i in range(n)], body_of(nodes, carried, replacements))],
                 [TRIPS, GO] + [('x%d' % i, FLOAT, [64]) for i in range(n)], [('y%d' % i, FLOAT, [64]) for i in range(n)])


def carried(n):
    """n carried values, each made anew from itself."""
    return carries(n, [relu('c%d' % i, 'r%d' % i) for i in range(n)], ['r%d' % i for i in range(n)])


def left(n):
    """n carried values in two buffers each; what the loop leaves, in either of them, is read after it."""
    carried = ['c%d' % i for i in range(n)]
    body = body_of([node('Softmax', [c], ['r' + c]) for c in carried], carried, ['r' + c for c in carried])
    return graph([loop(['y%d' % i for i in range(n)], ['x'] * n, body)] + [relu('y%d' % i, 'z%d' % i) for i in range(n)],
                 [TRIPS, GO, X], [('z%d' % i, FLOAT, [64]) for i in range(n)])


def delay(n):
    """The state of n iterations ago."""
    return carries(n, [relu('c%d' % (n - 1), 'r')], ['r'] + ['c%d' % i for i in range(n - 1)])


def rotation(n):
    """n carried values go round."""
    return carries(n, [], ['c%d' % ((i + 1) % n) for i in range(n)])


def swaps(n):
    """Pairs of carried values, of which one is made anew and both change places."""
    nodes = [relu('c%d' % i, 'r%d' % i) for i in range(0, n, 2)]
    return carries(n, nodes, [('c%d' % (i + 1) if i % 2 == 0 else 'r%d' % (i - 1)) for i in range(n)])


def stacked(n):
    """A loop that stacks n results."""
    body = graph([node('Identity', ['again'], ['again_out'])] + [node('Exp', ['c'], ['s%d' % i]) for i in range(n)] +
                 [relu('c', 'r')], [('i', INT64, []), ('again', BOOL, []), ('c', FLOAT, [64])],
                 [('again_out', BOOL, []), ('r', FLOAT, [64])] + [('s%d' % i, FLOAT, [64]) for i in range(n)])
    return graph([node('Loop', ['four', '', 'x'], ['y'] + ['z%d' % i for i in range(n)], body=body)], [X],
                 [('y', FLOAT, [64])] + [('z%d' % i, FLOAT, [4, 64]) for i in range(n)], [tensor('four', INT64, [], [4])])


def loops(n):
    """n loops, each beginning with what the one before left."""
    names = ['x'] + ['v%d' % i for i in range(n)]
    body = body_of([relu('c', 'r')], ['c'], ['r'])
    return graph([loop([names[i + 1]], [names[i]], body) for i in range(n)], [X, TRIPS, GO], [(names[-1], FLOAT, [64])])


def loops_of_one(n):
    """n loops that begin with the same value."""
    body = body_of([relu('c', 'r')], ['c'], ['r'])
    return graph([node('Exp', ['x'], ['v'])] + [loop(['y%d' % i], ['v'], body) for i in range(n)], [X, TRIPS, GO],
                 [('y%d' % i, FLOAT, [64]) for i in range(n)])


def branch(a, b, operator='Relu'):
    return graph([node(operator, [a], [b])], [], [(b, FLOAT, [64])])


def ifs(n):
    """n branches, one after the other."""
    names = ['x'] + ['v%d' % i for i in range(n)]
    return graph([node('If', ['go'], [names[i + 1]], then_branch=branch(names[i], 'a'), else_branch=branch(names[i], 'b', 'Exp'))
                  for i in range(n)], [X, GO], [(names[-1], FLOAT, [64])])


def if_outputs(n):
    """One branch with n results."""
    def side(operator):
        return graph([node(operator, ['x'], ['b%d' % i]) for i in range(n)], [], [('b%d' % i, FLOAT, [64]) for i in range(n)])
    return graph([node('If', ['go'], ['y%d' % i for i in range(n)], then_branch=side('Relu'), else_branch=side('Exp'))],
                 [X, GO], [('y%d' % i, FLOAT, [64]) for i in range(n)])


def nested_ifs(n):
    """Branches in branches."""
    inner = branch('x', 'b0')
    for i in range(1, n):
        inner = graph([node('If', ['go'], ['b%d' % i], then_branch=inner, else_branch=branch('x', 'e%d' % i, 'Exp'))], [],
                      [('b%d' % i, FLOAT, [64])])
    return graph([node('If', ['go'], ['y'], then_branch=inner, else_branch=branch('x', 'e', 'Exp'))], [X, GO],
                 [('y', FLOAT, [64])])


def nested(n, state, inside, replaced):
    """Loops in loops: each carries `state` values, which the one inside begins with; what it leaves is replaced."""
    def names(letter, i):
        return ['%s%d_%d' % (letter, i, k) for k in range(state)]
    made = inside(names('c', n - 1), names('m', n - 1))
    for i in range(n - 1, -1, -1):
        body = graph([node('Identity', ['a%d' % i], ['o%d' % i])] + made,
                     [('i%d' % i, INT64, []), ('a%d' % i, BOOL, [])] + [(c, FLOAT, [64]) for c in names('c', i)],
                     [('o%d' % i, BOOL, [])] + [(r, FLOAT, [64]) for r in replaced(names('m', i))])
        made = [loop(names('m', i - 1) if i else ['y%d' % k for k in range(state)],
                     names('c', i - 1) if i else ['x'] * state, body)]
    return graph(made, [X, TRIPS, GO], [('y%d' % k, FLOAT, [64]) for k in range(state)])


def nested_loops(n):
    """Loops in loops, each handing its state to the one inside."""
    return nested(n, 1, lambda c, m: [relu(c[0], m[0])], lambda m: m)


def nested_softmax(n):
    """The same with a state that cannot be made in place."""
    return nested(n, 1, lambda c, m: [node('Softmax', c, m)], lambda m: m)


def nested_swaps(n):
    """The same with two states that change places in each loop."""
    return nested(n, 2, lambda c, m: [relu(c[0], m[0]), node('Add', c, [m[1]])], lambda m: m[::-1])


WIDE = [chain, fan, apart, skips, slices, carried, left, delay, rotation, swaps, stacked, loops, loops_of_one, ifs, if_outputs]
DEEP = [nested_ifs, nested_loops, nested_softmax, nested_swaps]

# ---- measuring ----------------------------------------------------------------------------------------------------


def compile_once(command, path, limits):
    """Seconds of the processors, megabytes, what it said ('' where it worked)."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (limits.megabytes << 20,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (limits.seconds,) * 2)
    with open(path + '.err', 'w') as errors:
        child = subprocess.Popen([command, 'compile', path, '-o', path + '.plan', '-q'] + limits.option, stderr=errors,
                                 preexec_fn=limit)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = status
    said = open(path + '.err').read().strip().replace(path, 'model').split('\n')[0]
    if os.WIFSIGNALED(status):
        said = 'ended by signal %d' % os.WTERMSIG(status)
    elif status and not said:
        said = 'status %d' % os.WEXITSTATUS(status)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, said if status else ''


def draw(path, rows):
    """Seconds against size, both logarithmic, a line a kind."""
    width, height, left = 720, 480, 60
    sizes = [r[1] for r in rows]
    times = [max(r[2], 0.01) for r in rows]
    low, high = math.log10(min(sizes)), math.log10(max(sizes)) or 1
    bottom, top = math.log10(min(times)), math.log10(max(times))
    def at(size, seconds):
        return '%.1f,%.1f' % (left + (math.log10(size) - low) / max(high - low, 1e-9) * (width - left - 150),
                              height - 40 - (math.log10(max(seconds, 0.01)) - bottom) / max(top - bottom, 1e-9) * (height - 80))
    parts = []
    for number, kind in enumerate(dict.fromkeys(r[0] for r in rows)):
        points = [at(r[1], r[2]) for r in rows if r[0] == kind]
        colour = 'hsl(%d,70%%,40%%)' % (number * 137 % 360)
        parts.append('<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>' % (colour, ' '.join(points)))
        parts.append('<text x="%s" y="%s" fill="%s" font-size="11">%s</text>' % (*points[-1].split(','), colour, kind))
    axes = ''.join('<text x="%s" y="%d" font-size="11">%d</text>' % (at(s, min(times)).split(',')[0], height - 15, s)
                   for s in sorted(set(sizes)))
    axes += ''.join('<text x="5" y="%s" font-size="11">%g s</text>' % (at(min(sizes), 10.0 ** e).split(',')[1], 10.0 ** e)
                    for e in range(math.ceil(bottom), math.floor(top) + 1))
    with open(path, 'w') as file:
        file.write('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d">%s%s</svg>\n' %
                   (width, height, ''.join(parts), axes))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = os.path.realpath(os.path.join(os.path.dirname(__file__), '..', '..'))
    parser.add_argument('-b', '--build', default=os.path.join(root, 'build'))
    parser.add_argument('-k', '--kinds', default=','.join(f.__name__ for f in WIDE + DEEP))
    parser.add_argument('-n', '--sizes', default='')
    parser.add_argument('-o', '--option', action='append', default=[], help='handed to ouro compile')
    parser.add_argument('--seconds', type=int, default=120)
    parser.add_argument('--megabytes', type=int, default=8000)
    parser.add_argument('--exponent', type=float, default=1.4)
    parser.add_argument('--svg')
    parser.add_argument('--keep', help='folder for the models')
    options = parser.parse_args()
    rows, slow = [], False
    with tempfile.TemporaryDirectory() as folder:
        folder = options.keep or folder
        print('%-14s %8s %9s %9s  %s' % ('kind', 'size', 'seconds', 'MB', 'exponents of seconds, MB'))
        for name in options.kinds.split(','):
            make = globals()[name]
            before = None
            for size in [int(s) for s in options.sizes.split(',') if s] or ([10, 45, 90] if make in DEEP else [1000, 10000, 100000]):
                path = os.path.join(folder, '%s_%d.onnx' % (name, size))
                with open(path, 'wb') as file:
                    file.write(model(make(size)))
                seconds, megabytes, said = compile_once(os.path.join(options.build, 'ouro'), path, options)
                line = '%-14s %8d %9.2f %9.1f' % (name, size, seconds, megabytes)
                if before:
                    steps = math.log(size / before[0])
                    growth = math.log(max(seconds, 0.01) / max(before[1], 0.01)) / steps
                    line += '  %5.2f %5.2f' % (growth, math.log(megabytes / before[2]) / steps)
                    slow |= growth > options.exponent and before[1] >= 0.2
                print(line + ('  ' + said if said else ''), flush=True)
                before = (size, seconds, megabytes)
                rows.append((name, size, seconds))
                slow |= bool(said)
                if said and 'signal' in said:
                    break
    if options.svg:
        draw(options.svg, rows)
    return 1 if slow else 0


if __name__ == '__main__':
    sys.exit(main())
