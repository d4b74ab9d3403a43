"""Matching routing keys against topic patterns: words with dots between them.

Responsible for which of many patterns a key matches. The empty text has no words; "." has two empty
ones, and empty words count. In a pattern `*` stands for one word, `#` for any number of words, none
included; within a longer word both are ordinary characters. The values under a pattern are the
caller's; this must not know exchanges or bindings.

The patterns form a radix tree: a node holds the words that its patterns share from its parent on.
A key is matched by walking the tree once, with a set of bits: bit i is set if the pattern up to
here matches the first i words of the key. One word of a pattern moves the whole set a step further,
64 bits at a time, so a key costs at most the words of all patterns times its own words by 64,
whatever the wildcards are. The other way round, with a set of nodes that one word of the key moves
further, it costs more than a minute for 10,000 patterns of 255 bytes; a matcher that backtracks
never ends (CVE-2026-67419).

Nearly all keys have few words, so that the set is one integer, and come to a few nodes: such a walk
is a plain recursion (`Patterns.match_at_once`). Many patterns still cost milliseconds, so the walk
of any other key can be left at any node and taken up later
(`Search`). Patterns may come and go in between. A node's words therefore never change: a node that
is divided or united is replaced. A replaced node shares its values and children with the one in its
place, so a walk that has come to it still finds every pattern that was there all the time, once.

Invariants: every node but the root has a value, or more than one child; its children begin with
different words. A word is in the vocabulary while a pattern has it. Removed patterns and matched
keys leave no memory behind. Between two calls, no word has a `first`.
"""

from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from cpython.ref cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE

from leporid.engine.bounds.sharded_dict cimport ShardedDict

# What a binding key of 255 bytes can have, all of them empty. It bounds the depth of the tree, and
# of the recursion that walks it.
WORDS_MAX = 256

cdef enum:
    DEPTH_MAX = 256 + 1     # nodes from the root to a leaf
    DENSE_MAX = 64          # words of a key that have a mask; see `Walk`
    # Values of one pattern that are kept in one dict, which is copied whenever it grows.
    DICT_MAX = 1024
    # What a step of a search does, in words that move 64 positions, of 6 ns each; and what a node
    # and a value cost besides.
    WORK_A_STEP = 16384
    NODE_WORK = 8
    # Of a key that is matched at once, its words, whose positions are one integer, and its work.
    SHORT_MAX = 63
    WORK_AT_ONCE = 4096

# Values of `Word.slot` that are not the number of a mask.
cdef enum:
    ANY_WORDS = -1          # the wildcard #
    ONE_WORD = -2           # the wildcard *
    SPARSE = -3             # a word, found in the key by `Word.first` and `Walk.next`


cdef class Word:
    """A word of patterns, or a wildcard. There is one object for each, so identity is equality.

    Attributes:
        uses: How often patterns have it.
        slot: Which mask says where the key has it, or one of the above.
        first: Where the key that is being matched has it first; -1 if nowhere.
        count: How often that key has it; only if it has it at all.
        seen: Which step of the walk met it last.
    """

    cdef str text
    cdef Py_ssize_t uses
    cdef int32_t slot, first, count
    cdef uint64_t seen

    def __cinit__(self, str text, int32_t slot=SPARSE):
        self.text = text
        self.slot = slot
        self.first = -1


cdef class Node:
    """A place in the tree.

    Attributes:
        words: Those from the parent to here.
        children: By their first word; None if there are none.
        values: What is kept with the pattern that ends here: the keys of a dict, in order, or of a
            ShardedDict if there are many; None if nothing.
    """

    cdef tuple words
    cdef ShardedDict children
    cdef object values

    def __cinit__(self, tuple words):
        self.words = words


# A key that is being matched. A set of positions is `limbs` integers; `end` is the position after
# the last word. A word that occurs in at least one of 64 positions gets a mask; others have a list
# of their positions. So a step never takes longer than the set is long, and a long key of many
# words takes only a few times its own length of memory.
cdef struct Walk:
    int32_t limbs, end
    uint64_t top            # the positions that the last limb has
    uint64_t *masks         # of each slot
    uint64_t *sets          # of each node on the way down
    int32_t *next           # the next position of the same word; -1 if there is none


# A key of at most `SHORT_MAX` words. `all` are its positions.
cdef struct ShortKey:
    (PyObject *)[SHORT_MAX] words   # NULL: no pattern has it
    int32_t end
    uint64_t all
    Py_ssize_t work                 # that is left to do at once


cdef class Patterns:
    """Patterns, each with the values that were added under it."""

    cdef Node root
    cdef ShardedDict vocabulary
    cdef Word one_word, any_words
    cdef uint64_t steps                     # of all walks, so that no word was seen in one to come
    cdef readonly Py_ssize_t node_count     # below the root

    def __cinit__(self):
        self.root = Node(())
        self.vocabulary = ShardedDict()
        self.one_word = Word("*", ONE_WORD)
        self.any_words = Word("#", ANY_WORDS)

    @property
    def word_count(self):
        """How many words the patterns have, without wildcards."""
        return len(self.vocabulary)

    def add(self, str pattern, value):
        """Add a value under a pattern; it must not be there yet."""
        cdef list texts = split(pattern)
        if len(texts) > WORDS_MAX:
            raise ValueError(f"a pattern has at most {WORDS_MAX} words, not {len(texts)}")
        cdef tuple words = self.learn(texts)
        cdef Node node = self.root, child
        cdef Py_ssize_t at = 0, shared
        while at < len(words):
            child = None if node.children is None else node.children.get(words[at])
            if child is None:
                child = Node(words[at:])
                self.node_count += 1
                adopt(node, child)
            shared = shared_words(child.words, words, at)
            if shared < len(child.words):
                child = self.divide(node, child, shared)
            at += shared
            node = child
        if node.values is None:
            node.values = {}
        elif len(node.values) == DICT_MAX:
            node.values = divided(node.values)
        node.values[value] = None

    def remove(self, str pattern, value):
        """Remove a value that is there, with the nodes and words that only it needed."""
        cdef list texts = split(pattern), way = [self.root]
        cdef tuple words = self.normal_form(texts)
        cdef Node node = self.root, parent
        cdef Py_ssize_t at = 0
        while at < len(words):
            node = node.children[words[at]]
            way.append(node)
            at += len(node.words)
        del node.values[value]
        if not node.values:
            node.values = None
        # A removed leaf may leave a parent without a value and with one child.
        while len(way) > 1:
            node = way.pop()
            parent = way[len(way) - 1]
            if node.values is not None or (node.children is not None and len(node.children) > 1):
                break
            self.node_count -= 1
            if node.children is None:
                del parent.children[node.words[0]]
                if not parent.children:
                    parent.children = None
            else:
                unite(parent, node)
        self.forget(texts)

    def match(self, str key):
        """The values under all patterns that the key matches, each once.

        Their order depends only on the key and on the order of `add` and `remove` so far, but for
        a pattern with more than a thousand values.
        """
        cdef Search search = self.search(key)
        while not search.advance():
            pass
        return search.found

    cpdef list match_at_once(self, str key):
        """The same if the key is short and few patterns are alike, so that it is found at once."""
        cdef list texts = split(key), found = []
        cdef ShortKey short
        cdef Py_ssize_t at
        cdef str text
        if len(texts) > SHORT_MAX:
            return None
        short.end = <int32_t> len(texts)
        short.all = ~<uint64_t> 0 >> (63 - short.end)
        short.work = WORK_AT_ONCE
        for at, text in enumerate(texts):
            word = self.vocabulary.get(text)    # which holds it
            short.words[at] = NULL if word is None else <PyObject *> word
        return found if self.collect(self.root, 1, &short, found) else None

    def search(self, str key):
        """Begin to find the same in steps; between them patterns may come and go."""
        return Search(self, key)

    # ------------------------------------------------------------------ short keys

    cdef bint collect(self, Node node, uint64_t positions, ShortKey *key, list found) except -1:
        """Collect the values of a node that was reached, and of those below; False: too many."""
        cdef dict few
        cdef Node child
        cdef Word word
        cdef uint64_t left
        cdef int32_t at
        if node.values is not None and positions >> key.end & 1:
            if type(node.values) is not dict:
                return False
            found.extend(<dict> node.values)
            key.work -= len(<dict> node.values)
        if node.children is None:
            return True
        # As in `Search.visit`: all children, or those whose first word is at one of the positions.
        few = node.children.root.entries
        if few is not None and len(few) <= popcount(positions) + 2:
            for child in few.values():
                if not self.enter(child, positions, key, found):
                    return False
            return True
        left = positions & ~(<uint64_t> 1 << key.end)
        while left:
            at = lowest(left)
            left &= left - 1
            key.work -= NODE_WORK
            if key.words[at] == NULL or is_before(key, at, positions):
                continue
            child = node.children.get(<Word> key.words[at])
            if child is not None and not self.enter(child, positions, key, found):
                return False
        for word in (self.one_word, self.any_words):
            child = node.children.get(word)
            if child is not None and not self.enter(child, positions, key, found):
                return False
        return True

    cdef bint enter(self, Node node, uint64_t positions, ShortKey *key, list found) except -1:
        """Go on to a child, and collect what is there if the key comes to it; False: too much."""
        cdef Py_ssize_t at
        key.work -= NODE_WORK
        if key.work < 0:
            return False
        for at in range(PyTuple_GET_SIZE(node.words)):
            key.work -= popcount(positions)
            positions = moved(key, <Word> PyTuple_GET_ITEM(node.words, at), positions)
            if not positions:
                return True
        return self.collect(node, positions, key, found)

    # ------------------------------------------------------------------ the words

    cdef tuple learn(self, list texts):
        """The words of a pattern, counting one more use of each."""
        cdef Word word
        cdef str text
        for text in texts:
            if text != "*" and text != "#":
                word = self.vocabulary.get(text)
                if word is None:
                    word = self.vocabulary[text] = Word(text)
                word.uses += 1
        return self.normal_form(texts)

    cdef tuple normal_form(self, list texts):
        """The words of a pattern in the normal form of all patterns that match the same keys.

        Adjacent wildcards may be in any order, and one # of them means the same as several.
        """
        cdef list words = []
        cdef bint pending = False
        cdef str text
        for text in texts:
            if text == "#":
                pending = True
            elif text == "*":
                words.append(self.one_word)
            else:
                if pending:
                    words.append(self.any_words)
                    pending = False
                words.append(self.vocabulary[text])
        if pending:
            words.append(self.any_words)
        return tuple(words)

    cdef int forget(self, list texts) except -1:
        """Count one use less of each word of a pattern."""
        cdef Word word
        cdef str text
        for text in texts:
            if text != "*" and text != "#":
                word = self.vocabulary[text]
                word.uses -= 1
                if not word.uses:
                    del self.vocabulary[text]
        return 0

    cdef Node divide(self, Node parent, Node node, Py_ssize_t at):
        """Replace a node by two, one below the other; return the upper one."""
        cdef Node middle = Node(node.words[:at])
        adopt(middle, replacement(node, node.words[at:]))
        adopt(parent, middle)
        self.node_count += 1
        return middle


cdef class Search:
    """A key that is matched with all patterns, as far as it has come.

    Attributes:
        found: The values under the patterns that it matched so far.
        words: Those of the key; None for one that no pattern has.
        levels: Of each node on the way down, an iterator over its children that are left to enter.
        values: An iterator over the values of a pattern that are left to be found; or None.
    """

    cdef Patterns patterns
    cdef Walk walk
    cdef readonly list found
    cdef list words, levels
    cdef object values

    def __cinit__(self, Patterns patterns not None, str key):
        cdef list texts = split(key)
        cdef size_t limbs = <size_t> len(texts) // 64 + 1
        cdef size_t slots = min(len(texts), DENSE_MAX)
        # One set more than nodes, for a step that cannot be done in place.
        cdef size_t total = slots * limbs + (DEPTH_MAX + 1) * limbs
        self.patterns = patterns
        self.words = [patterns.vocabulary.get(text) for text in texts]
        self.found, self.levels = [], []
        self.walk.masks = <uint64_t *> malloc(
            total * sizeof(uint64_t) + len(texts) * sizeof(int32_t))
        if self.walk.masks == NULL:
            raise MemoryError(f"no memory to match a routing key of {len(texts)} words")
        self.walk.sets = self.walk.masks + slots * limbs
        self.walk.next = <int32_t *> (self.walk.masks + total)
        self.walk.limbs = <int32_t> limbs
        self.walk.end = <int32_t> len(texts)
        self.walk.top = ~<uint64_t> 0 >> (63 - len(texts) % 64)
        memset(self.walk.sets, 0, limbs * sizeof(uint64_t))
        self.walk.sets[0] = 1
        self.visit(patterns.root, self.walk.sets)

    def __dealloc__(self):
        free(self.walk.masks)

    cpdef bint advance(self) except -1:
        """Find some more; returns whether that was all."""
        place(&self.walk, self.words)
        try:
            return self.descend(WORK_A_STEP)
        finally:
            displace(self.words)

    cdef bint descend(self, Py_ssize_t work) except -1:
        """Go down to nodes, and up again, until so much work is done; returns whether all is."""
        cdef Node node
        cdef Py_ssize_t at
        cdef uint64_t *positions
        while work > 0:
            if self.values is not None:
                work -= self.take_values(work)
                continue
            if not self.levels:
                return True
            node = next(self.levels[len(self.levels) - 1], None)
            if node is None:
                self.levels.pop()
                continue
            # The set of the parent stays; the memory after it is free for those further down.
            positions = self.walk.sets + len(self.levels) * self.walk.limbs
            memcpy(positions, positions - self.walk.limbs, self.walk.limbs * sizeof(uint64_t))
            work -= NODE_WORK
            for at in range(PyTuple_GET_SIZE(node.words)):
                work -= self.walk.limbs
                if not step(&self.walk, <Word> PyTuple_GET_ITEM(node.words, at), positions):
                    break
            else:
                work -= self.visit(node, positions)
        return self.values is None and not self.levels

    cdef Py_ssize_t visit(self, Node node, uint64_t *positions) except -1:
        """Collect the values of a node that was reached, and have its children entered.

        Returns what that cost.
        """
        cdef Py_ssize_t before = len(self.found)
        if node.values is not None and holds(positions, self.walk.end):
            if type(node.values) is dict:
                self.found.extend(<dict> node.values)
            else:
                self.values = iter(node.values)
        if node.children is None:
            return len(self.found) - before
        # Either all children are tried, or only those whose first word is at one of the positions:
        # whichever is less.
        if len(node.children) <= size_of(&self.walk, positions) + 2:
            self.levels.append(node.children.values())
        else:
            self.levels.append(iter(self.likely_children(node, positions)))
        return len(self.found) - before + self.walk.end

    cdef list likely_children(self, Node node, uint64_t *positions):
        """Those whose first word is a wildcard, or at one of the positions."""
        cdef list children = []
        cdef Word word
        cdef int32_t limb, at
        cdef uint64_t left
        self.patterns.steps += 1
        for limb in range(self.walk.limbs):
            left = positions[limb]
            while left:
                at = 64 * limb + lowest(left)
                left &= left - 1
                if at == self.walk.end:
                    break
                word = self.words[at]
                if word is not None and word.seen != self.patterns.steps:
                    word.seen = self.patterns.steps
                    if word in node.children:
                        children.append(node.children[word])
        for word in (self.patterns.one_word, self.patterns.any_words):
            if word in node.children:
                children.append(node.children[word])
        return children

    cdef Py_ssize_t take_values(self, Py_ssize_t most) except -1:
        """Collect some of the values of a pattern that has many; returns how many."""
        cdef Py_ssize_t count = 0
        for value in self.values:
            self.found.append(value)
            count += 1
            if count == most:
                return count
        self.values = None
        return count


cdef list split(str text):
    return text.split(".") if text else []


cdef int adopt(Node parent, Node child) except -1:
    """Give a node a child, in the place of one that begins with the same word."""
    if parent.children is None:
        parent.children = ShardedDict()
    parent.children[child.words[0]] = child
    return 0


cdef int unite(Node parent, Node node) except -1:
    """Replace a node that has one child and no value, and the child, by one node."""
    cdef Node child
    for child in node.children.values():
        adopt(parent, replacement(child, node.words + child.words))
    return 0


cdef Node replacement(Node node, tuple words):
    """A node with other words in place of one that searches may still hold."""
    cdef Node made = Node(words)
    made.children = node.children
    made.values = node.values
    return made


cdef ShardedDict divided(dict values):
    """The same keys, so many that a dict would be copied for too long when it grows."""
    cdef ShardedDict made = ShardedDict()
    for value in values:
        made[value] = None
    return made


cdef Py_ssize_t shared_words(tuple ours, tuple theirs, Py_ssize_t at):
    """How many words `ours` has in common with those of `theirs` from `at` on."""
    cdef Py_ssize_t count = 0, most = min(len(ours), len(theirs) - at)
    while count < most and ours[count] is theirs[at + count]:
        count += 1
    return count


# ---------------------------------------------------------------------- the positions of a key

cdef int place(Walk *walk, list words) except -1:
    """Note where the key has each word: in a list of positions, and in a mask if there are many."""
    cdef Word word
    cdef int32_t at = walk.end, slots = 0
    cdef uint64_t *mask
    while at:
        at -= 1
        word = words[at]
        if word is None:
            continue
        word.count = 1 if word.first < 0 else word.count + 1
        walk.next[at] = word.first
        word.first = at
    for at in range(walk.end):
        word = words[at]
        if word is None or word.count < walk.limbs:
            continue
        if word.first == at:
            word.slot = slots
            memset(walk.masks + slots * walk.limbs, 0, walk.limbs * sizeof(uint64_t))
            slots += 1
        mask = walk.masks + word.slot * walk.limbs
        mask[at >> 6] |= <uint64_t> 1 << (at & 63)
    return 0


cdef int displace(list words) except -1:
    """Forget where a key had its words."""
    cdef Word word
    for word in words:
        if word is not None:
            word.first = -1
            word.slot = SPARSE
    return 0


cdef inline bint step(Walk *walk, Word word, uint64_t *positions) noexcept:
    """Move the positions one word of a pattern further; returns whether any are left."""
    cdef uint64_t before, carry = 0, left = 0
    cdef uint64_t *mask
    cdef int32_t limb
    if word.slot >= 0:
        mask = walk.masks + word.slot * walk.limbs
        for limb in range(walk.limbs):
            before = positions[limb] & mask[limb]
            positions[limb] = before << 1 | carry
            left |= positions[limb]
            carry = before >> 63
    elif word.slot == ANY_WORDS:
        for limb in range(walk.limbs):
            if not left:
                left = positions[limb]
                positions[limb] = left | (~left + 1)    # the lowest bit, and all above
            else:
                positions[limb] = ~<uint64_t> 0
        positions[walk.limbs - 1] &= walk.top
    elif word.slot == ONE_WORD:
        for limb in range(walk.limbs):
            before = positions[limb]
            positions[limb] = before << 1 | carry
            carry = before >> 63
            if limb == walk.limbs - 1:
                positions[limb] &= walk.top
            left |= positions[limb]
    else:
        return step_sparse(walk, word, positions)
    return left != 0


cdef bint step_sparse(Walk *walk, Word word, uint64_t *positions) noexcept:
    """The same for a word without a mask."""
    cdef uint64_t *ahead = positions + walk.limbs
    cdef int32_t at = word.first
    cdef bint left = False
    if at < 0:
        return False
    memset(ahead, 0, walk.limbs * sizeof(uint64_t))
    while at >= 0:
        if holds(positions, at):
            ahead[(at + 1) >> 6] |= <uint64_t> 1 << ((at + 1) & 63)
            left = True
        at = walk.next[at]
    memcpy(positions, ahead, walk.limbs * sizeof(uint64_t))
    return left


cdef inline uint64_t moved(ShortKey *key, Word word, uint64_t positions) noexcept:
    """The same for a short key; returns the positions."""
    cdef uint64_t left, ahead = 0
    cdef int32_t at
    if word.slot == ANY_WORDS:
        return (positions | (~positions + 1)) & key.all     # the lowest bit, and all above
    if word.slot == ONE_WORD:
        return positions << 1 & key.all
    left = positions & ~(<uint64_t> 1 << key.end)
    while left:
        at = lowest(left)
        left &= left - 1
        if key.words[at] == <PyObject *> word:
            ahead |= <uint64_t> 2 << at
    return ahead


cdef inline bint is_before(ShortKey *key, int32_t at, uint64_t positions) noexcept:
    """Whether a word of a short key is also at an earlier one of the positions."""
    cdef uint64_t left = positions & ((<uint64_t> 1 << at) - 1)
    while left:
        if key.words[lowest(left)] == key.words[at]:
            return True
        left &= left - 1
    return False


cdef bint holds(uint64_t *positions, int32_t at) noexcept:
    return positions[at >> 6] >> (at & 63) & 1


cdef int32_t size_of(Walk *walk, uint64_t *positions) noexcept:
    """How many positions there are."""
    cdef int32_t count = 0, limb
    for limb in range(walk.limbs):
        count += popcount(positions[limb])
    return count


cdef extern from *:
    int lowest "__builtin_ctzll"(unsigned long long bits) noexcept
    int popcount "__builtin_popcountll"(unsigned long long bits) noexcept
