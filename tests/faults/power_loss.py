#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""power_loss.py OURO MODELS LIBRARY: what a plan is when the power goes while another one is written in its place. MODELS is
ouro-models, LIBRARY what record.c makes: it tells what a compile does to files. After each of these calls the power goes, in a model of a
file system that keeps as little as POSIX allows: of what was written since a file's last fsync all, nothing, a part, or as many
zeros; of changes of names since the folder's last fsync any of them, in order. The plan is the old one or the new one; when the compile
has ended it is the new one. The model is tried itself: with each fsync left out something goes wrong."""
import itertools
import os
import subprocess
import sys
import tempfile

O_CREAT, O_TRUNC, O_DIRECTORY = os.O_CREAT, os.O_TRUNC, os.O_DIRECTORY
PLAN = 'out.plan'


class File:
    """What is in it now, and what surely lasts."""

    def __init__(self, content=b'', lasting=b''):
        self.content, self.lasting = content, lasting

    def after_loss(self):
        now = self.content
        if now == self.lasting:
            return {now}
        return {now, self.lasting, b'', now[:len(now) // 2], bytes(len(now)), now[:len(now) // 2] + bytes(len(now) - len(now) // 2)}


class Disk:
    """One folder. Names lead to files; `lasting` are the names at its last fsync, `pending` the changes since."""

    def __init__(self, old):
        self.names = {PLAN: File(old, old)}
        self.lasting, self.pending, self.opened = dict(self.names), [], {}

    def change(self, name, file):
        self.pending.append({name: file} if not isinstance(name, dict) else name)
        for key, value in self.pending[-1].items():
            self.names[key] = value

    def do(self, call, words, data):
        if call == 'open':
            number, flags, path = int(words[0]), int(words[1]), words[2]
            if flags & O_DIRECTORY:
                self.opened[number] = self
            elif flags & O_CREAT and self.names.get(path) is None:
                self.change(path, File())
                self.opened[number] = self.names[path]
            else:
                self.opened[number] = self.names.get(path)  # None: not of this folder
                if flags & O_TRUNC and self.opened[number]:
                    self.opened[number].content = b''
        elif call == 'write':
            file = self.opened.get(int(words[0]))
            if file:
                file.content += data
        elif call == 'fsync':
            file = self.opened[int(words[0])]
            if file is self:
                self.lasting, self.pending = dict(self.names), []
            else:
                file.lasting = file.content
        elif call == 'close':
            self.opened.pop(int(words[0]), None)
        elif call == 'rename':
            self.change({words[1]: self.names[words[0]], words[0]: None}, None)
        elif call == 'unlink':
            self.change(words[0], None)

    def plans(self):
        """All that the plan may be after a loss of power now; None: it is not there."""
        found = set()
        for kept in itertools.product((False, True), repeat=len(self.pending)):
            names = dict(self.lasting)
            for change in itertools.compress(self.pending, kept):
                names.update(change)
            found |= names[PLAN].after_loss() if names.get(PLAN) else {None}
        return found


def read_record(path):
    data, calls, at = open(path, 'rb').read(), [], 0
    while at < len(data):
        end = data.index(b'\n', at)
        words = data[at:end].decode().split(' ')
        size = int(words[2]) if words[0] == 'write' else 0
        calls.append((words[0], words[1:], data[end + 1:end + 1 + size]))
        at = end + 1 + size
    return calls


def losses(calls, old, new):
    """After which calls the plan may be neither (their numbers), and whether the new one lasts at the end."""
    disk, wrong = Disk(old), []
    for number, (call, words, data) in enumerate(calls):
        disk.do(call, words, data)
        if not disk.plans() <= {old, new}:
            wrong.append(number)
    return wrong, disk.plans() == {new}


def main():
    ouro, models, library = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run([models, folder, 'swap', 'rotation'], check=True, stdout=subprocess.DEVNULL)
        for model, plan in (('rotation', 'old'), ('swap', 'new')):
            subprocess.run([ouro, 'compile', model + '.onnx', '-o', plan + '.plan', '-q'], check=True)
        old, new = (open(name + '.plan', 'rb').read() for name in ('old', 'new'))
        open(PLAN, 'wb').write(old)
        subprocess.run([ouro, 'compile', 'swap.onnx', '-o', PLAN, '-q'], check=True,
                       env=dict(os.environ, LD_PRELOAD=library, OURO_RECORD=os.path.join(folder, 'record')))
        assert open(PLAN, 'rb').read() == new
        calls = read_record('record')
    wrong, lasts = losses(calls, old, new)
    print('%d calls, %d of them fsync; neither the old nor the new plan after %d of them; at the end the new one %s' %
          (len(calls), sum(c[0] == 'fsync' for c in calls), len(wrong), 'lasts' if lasts else 'may be lost'))
    for number in wrong:
        print('  after', calls[number][0], *calls[number][1])
    failed = bool(wrong) or not lasts
    for number in [n for n, c in enumerate(calls) if c[0] == 'fsync']:
        fewer = losses(calls[:number] + calls[number + 1:], old, new)
        if not fewer[0] and fewer[1]:
            print('without the fsync that is call %d nothing would go wrong: the model does not see it' % number)
            failed = True
    return 1 if failed or not any(c[0] == 'fsync' for c in calls) else 0


if __name__ == '__main__':
    sys.exit(main())
