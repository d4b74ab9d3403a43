"""Many filters asked about one message at once: what every subscriber of one thing wants of it.

    members = SelectorSet()
    number = members.add(filter)            a small number, given again after `remove`
    count = members.match(names, names_len, properties, properties_len)
    members.matched[0 .. count]             numbers of those that the message passes, in no order;
                                            valid until the set is used again

The headers are walked once for all members. A member whose filter requires one of some values (a
tag, `origin = 'JFK' AND …`, a prefix) is indexed under these: a message without them does not cost
it anything. Where a filter has several such conditions, the one counts that has the fewest members
so far. All other members are asked about every message. A value of another kind than the constants
(a number where texts are indexed) asks all members that are indexed in its place: it may be a type
error, or be converted.

One message may take many filters long: `match_in_time` leaves the rest for later slices of time,
between which members come and go and other messages are asked about.

A member consists of parts, which must all let a message pass: those of a `Conjunction`, else one.
The set does not know what a member stands for: numbers are an index into a list of the user's. One
thread uses a set, with the interpreter's lock. Invariants: matched are exactly those members whose
`Filter.matches` would say 1, but type errors are counted only of members that were asked. Between
two messages every value is nothing. A member whose `add` failed can be dropped.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from leporid.engine.bounds.clock cimport Clock
from leporid.engine.log.log cimport KIND_PUBLISH
from leporid.engine.log.window cimport Window
from leporid.engine.selectors.filter cimport Conjunction, Filter, short
from leporid.engine.selectors.conjuncts cimport (
    Analysis, Conjunct, ONE_OF, OPAQUE, PLACE_MASK, QuickReject, RequiredValue, RequiredValues,
    analyse, cheaper, conjuncts_hold, either_required, is_rejected, nothing_required,
    one_of_values, prefix_length, quick_reject_of, required_value, with_prefix,
)
from leporid.engine.selectors.header_match cimport HeaderMatch, HeaderTerm, IS_VALUE
from leporid.engine.selectors.interned_names cimport NAMES_MAX, NO_NAME, InternedNames
from leporid.engine.selectors.inverted_index cimport NOBODY, InvertedIndex, PostingList
from leporid.engine.selectors.machine cimport (
    AT_DELIVERY_MODE, AT_HEADERS, AT_MILLISECONDS, AT_TAG, BITS, BIT_HEADERS, Constant, Header,
    Instruction, MATCH, NOTHING, NO_MATCH, OP_DELIVERY_MODE, OP_MILLISECONDS, OP_TAG, Operand,
    Program, TEXT_VALUE, TYPE_ERROR, UNFINISHED, is_numeric, program_run, program_run_until, push,
    see_names, see_properties, set_field, set_nothing, set_text,
)
from leporid.engine.selectors.members cimport (
    Member, NEVER, PART_CONJUNCTS, PART_FILTER, PART_LONG, PART_PROGRAM, Part, Posting, add_part,
    derived_places, free_member, is_long, is_tag, renumber, resized, zeroed,
)
from leporid.engine.selectors.selector cimport Selector
from leporid.engine.selectors.tags cimport Tags
from leporid.engine.selectors.unfinished_match cimport UnfinishedMatch, unfinished_match
from leporid.engine.wire.codec cimport MALFORMED, Field, next_field
from leporid.engine.wire.hashing cimport keep_secret
from leporid.engine.wire.record cimport Record, Target

cdef extern from *:
    uint64_t add_relaxed "__atomic_add_fetch" (uint64_t *to, uint64_t value, int order) nogil
    int RELAXED "__ATOMIC_RELAXED"
    int lowest_bit "__builtin_ctz" (unsigned int bits) nogil

cdef extern from *:
    uint64_t ALL "UINT64_MAX"

cdef enum:
    FIRST_MEMBERS = 8
    # Steps of programs between two readings of the clock: some 50 us.
    STEPS = 64 * 1024
    # What one filter may take of the texts of a message is a millisecond, unless they are longer.
    LONG_BYTES = 16 * 1024
    # Steps, roughly, of a part that is not counted while it is evaluated; and of a filter that
    # cannot tell.
    PART_STEPS = 16
    FILTER_STEPS = 1024
    STEPS_A_UNIT = 1024         # of the clock
    # Headers of one binding that it can be found by.
    TERMS_MAX = 16

keep_secret()


cdef class SelectorSet:
    """Filters that are asked together, by number."""

    def __cinit__(self):
        self.filters = []
        self.index = InvertedIndex()
        self.names = InternedNames()
        self.free_number = NOBODY
        self.tags[0] = <uint16_t> self.names.intern(b"x-tag", 5)
        self.tags[1] = <uint16_t> self.names.intern(b"x-stream-filter-value", 21)
        self.make_room()
        self.make_places()

    def __dealloc__(self):
        cdef uint32_t at
        for at in range(self.end):
            free_member(&self.members[at])
        free(self.members)
        free(self.unindexed)
        free(self.rejects)
        free(self.passing)
        free(self.values)
        free(self.indexed_places)
        free(self.touched)
        free(self.found)
        free(self.left)

    def __len__(self):
        return self.count

    def __repr__(self):
        return f"<SelectorSet members={self.count} indexed={self.indexed}>"

    @property
    def indexed(self):
        """Members that are found by a value, and not asked about every message."""
        return self.count - self.unindexed_count

    @property
    def counts(self):
        """(questions, evaluated, passed, type errors) since the start: each member is one question
        about each message, and is evaluated unless a value has answered it."""
        return self.asked, self.evaluated, self.passed, self.failed

    # ------------------------------------------------------------------ members come and go

    cpdef uint32_t add(self, Filter filter) except? 0xffffffff:
        """Take a member in; returns its number. A filter may be in it several times."""
        cdef uint32_t number
        if filter is None:
            raise TypeError("None is no filter")
        number = self.take_number()
        self.members[number].errors = &filter.errors
        try:
            self.add_parts(&self.members[number], filter)
            self.index_member(number)
        except BaseException:
            self.drop(number)
            raise
        if number == <size_t> len(self.filters):
            self.filters.append(filter)
        else:
            self.filters[number] = filter
        return number

    cpdef int remove(self, uint32_t number) except -1:
        """Let a member go."""
        if number >= <size_t> len(self.filters) or self.filters[number] is None:
            raise KeyError(number)
        self.drop(number)
        self.filters[number] = None
        return 0

    cdef uint32_t take_number(self) except? 0xffffffff:
        """The number of a member without parts, which is not asked yet."""
        cdef uint32_t number = self.free_number
        cdef Member *member
        if number == NOBODY:
            if self.end == self.size:
                self.make_room()
            number = self.end
            self.end += 1
        else:
            self.free_number = self.members[number].at
        member = &self.members[number]
        memset(member, 0, sizeof(Member))
        member.at = NOBODY
        member.since = self.message
        self.count += 1
        return number

    cdef int drop(self, uint32_t number) noexcept:
        cdef Member *member = &self.members[number]
        cdef Part *part
        cdef uint32_t at, name
        self.unindex_member(number)
        for at in range(member.parts_count):
            part = &member.parts[at]
            self.note_use(part, -1)
            for name in range(part.names_count):
                self.names.release(part.names[name])
        free_member(member)
        memset(member, 0, sizeof(Member))
        member.at = self.free_number
        member.since = NEVER
        self.free_number = number
        self.count -= 1
        return 0

    cdef int make_room(self) except -1:
        cdef uint32_t size = self.size * 2 if self.size else FIRST_MEMBERS
        self.members = <Member *> resized(self.members, size, sizeof(Member))
        self.unindexed = <uint32_t *> resized(self.unindexed, size, sizeof(uint32_t))
        self.rejects = <QuickReject *> resized(self.rejects, size, sizeof(QuickReject))
        self.passing = <uint32_t *> resized(self.passing, size, sizeof(uint32_t))
        self.matched = self.passing
        self.left = <uint64_t *> resized(self.left, size // 64 + 1, sizeof(uint64_t))
        memset(self.left, 0, (size // 64 + 1) * sizeof(uint64_t))
        self.size = size
        return 0

    cdef int make_places(self) except -1:
        """Make room for the values of as many headers as there are ids."""
        cdef uint32_t places = AT_HEADERS + self.names.size, more
        if places <= self.places:
            return 0
        more = places - self.places
        self.values = <Operand *> resized(self.values, places, sizeof(Operand))
        self.indexed_places = <IndexedPlace *> resized(self.indexed_places, places,
                                                       sizeof(IndexedPlace))
        self.touched = <uint16_t *> resized(self.touched, places, sizeof(uint16_t))
        self.found = <uint8_t *> resized(self.found, places, 1)
        self.seen.values = self.values
        memset(self.values + self.places, 0, more * sizeof(Operand))
        memset(self.indexed_places + self.places, 0, more * sizeof(IndexedPlace))
        memset(self.found + self.places, 0, more)
        self.places = places
        return 0

    cdef int note_use(self, const Part *part, int change) noexcept:
        """Count what a part looks at; `change` is 1 or -1."""
        cdef int place
        for place in range(BITS):
            if place != BIT_HEADERS and part.wanted >> place & 1:
                self.uses[place] += change
        for place in range(AT_TAG, AT_HEADERS):
            if part.derived >> place & 1:
                self.uses[place] += change
        self.header_users += change * <int> part.names_count
        self.wanted = 1 << BIT_HEADERS if self.header_users or self.uses[<int> AT_TAG] else 0
        for place in range(BITS):
            if self.uses[place]:
                self.wanted |= 1 << place
        return 0

    # ------------------------------------------------------------------ parts

    cdef int add_parts(self, Member *member, Filter filter) except -1:
        if type(filter) is Conjunction:
            self.add_parts(member, (<Conjunction> filter).first)
            self.add_parts(member, (<Conjunction> filter).second)
        elif type(filter) is Tags:
            self.add_tags(member, <Tags> filter)
        elif type(filter) is Selector and self.can_share((<Selector> filter).program):
            self.add_selector(member, <Selector> filter)
        elif type(filter) is HeaderMatch:
            self.add_header_match(member, <HeaderMatch> filter)
        elif type(filter) is not Filter:  # which lets everything pass
            add_part(member, PART_FILTER).filter = <void *> filter
        return 0

    cdef bint can_share(self, const Program *program) noexcept:
        """Whether a program has no more names than there are ids, and no tag of its own kind."""
        cdef int at
        if self.names.count + program.headers_count > NAMES_MAX:
            return False
        for at in range(program.code.count):
            if (program.code.instructions[at].opcode == OP_TAG
                    and not is_tag(program, &program.code.instructions[at])):
                return False
        return True

    cdef int add_tags(self, Member *member, Tags filter) except -1:
        """One of the filter's tags must be the message's."""
        cdef uint32_t at, count = <uint32_t> len(filter.texts)
        cdef Part *part = add_part(member, PART_CONJUNCTS)
        part.tags = <Constant *> zeroed(count + 1, sizeof(Constant))
        part.conjuncts = <Conjunct *> zeroed(1, sizeof(Conjunct))
        part.room = <RequiredValue *> zeroed(1, sizeof(RequiredValue))
        for at in range(count):
            set_text(&part.tags[at].value, filter.tags[at].text, filter.tags[at].length)
        part.code.jms = 1
        part.derived = 1 << AT_TAG
        part.count = 1
        part.conjuncts.place = AT_TAG
        part.conjuncts.kind = ONE_OF
        part.conjuncts.several = part.tags
        part.conjuncts.count = count
        part.required = one_of_values(self.index, part.room, AT_TAG, part.tags, count)
        if is_long(part):
            part.kind = PART_LONG
        self.note_use(part, 1)
        return 0

    cdef int add_header_match(self, Member *member, HeaderMatch filter) except -1:
        """It is found by the rarest of the values that must all be there, or by any of them."""
        cdef Part *part = add_part(member, PART_FILTER)
        cdef RequiredValues one
        cdef const HeaderTerm *term
        cdef uint32_t at, name, indexed = 0
        part.filter = <void *> filter
        for at in range(filter.count):
            if filter.terms[at].kind == IS_VALUE:
                indexed += 1
        if filter.any and (indexed < filter.count or indexed > TERMS_MAX):
            return 0
        part.names = <uint16_t *> zeroed(TERMS_MAX, sizeof(uint16_t))
        part.tags = <Constant *> zeroed(TERMS_MAX, sizeof(Constant))
        part.room = <RequiredValue *> zeroed(TERMS_MAX, sizeof(RequiredValue))
        for at in range(filter.count):
            term = &filter.terms[at]
            if term.kind != IS_VALUE or part.names_count == TERMS_MAX:
                continue
            name = self.names.intern(term.name, term.length)
            if name == NO_NAME:
                if filter.any:
                    part.required = nothing_required()
                break
            part.names[part.names_count] = <uint16_t> name
            part.tags[part.names_count].value = term.value
            one = one_of_values(self.index, &part.room[part.names_count], AT_HEADERS + name,
                                &part.tags[part.names_count], 1)
            if not filter.any or not part.names_count:
                part.required = cheaper(part.required, one)
            else:
                part.required = either_required(part.required, one)
            part.names_count += 1
            self.header_users += 1
        self.make_places()
        self.header_users -= part.names_count  # `note_use` adds them
        self.note_use(part, 1)
        return 0

    cdef int add_selector(self, Member *member, Selector filter) except -1:
        cdef const Program *program = filter.program
        cdef const Header *header
        cdef Part *part = add_part(member, PART_CONJUNCTS)
        cdef Analysis analysis
        cdef uint32_t at
        cdef bint opaque = False
        part.names = <uint16_t *> zeroed(program.headers_count + 1, sizeof(uint16_t))
        part.conjuncts = <Conjunct *> zeroed(program.code.count + 1, sizeof(Conjunct))
        part.room = <RequiredValue *> zeroed(program.code.count + 1, sizeof(RequiredValue))
        for at in range(program.headers_count):
            header = &program.headers[at]
            part.names[at] = <uint16_t> self.names.intern(header.name, header.length)
            part.names_count += 1
            self.header_users += 1
        self.make_places()
        self.header_users -= part.names_count  # `note_use` adds them
        analysis.code = &program.code
        analysis.headers = part.names
        analysis.tags = self.tags
        analysis.conjuncts = part.conjuncts
        analysis.room = part.room
        analyse(&analysis, self.index)
        part.count = analysis.count
        part.required = analysis.required
        part.code = program.code
        part.wanted = program.wanted
        part.derived = derived_places(program)
        self.note_use(part, 1)
        for at in range(part.count):
            opaque |= part.conjuncts[at].kind == OPAQUE
        if opaque:
            renumber(part, program)
        elif is_long(part):
            part.kind = PART_LONG
        return 0

    # ------------------------------------------------------------------ the index

    cdef int index_member(self, uint32_t number) except -1:
        """From now on the member is asked."""
        cdef Member *member = &self.members[number]
        cdef RequiredValues required = nothing_required()
        cdef Part *first = member.parts
        cdef uint32_t at
        for at in range(member.parts_count):
            required = cheaper(required, member.parts[at].required)
        if required.first != NULL:
            self.add_postings(number, required)
        else:
            member.at = self.unindexed_count
            self.unindexed_count += 1
            self.unindexed[member.at] = number
            if first != NULL and first.kind <= PART_LONG:
                self.rejects[member.at] = quick_reject_of(first.conjuncts, first.count)
            else:
                self.rejects[member.at] = quick_reject_of(NULL, 0)
        for at in range(member.parts_count):
            free(member.parts[at].room)
            member.parts[at].room = NULL
        return 0

    cdef int add_postings(self, uint32_t number, RequiredValues required) except -1:
        cdef Member *member = &self.members[number]
        cdef const RequiredValue *one = required.first
        cdef Posting *posting
        cdef uint32_t at, count = 0
        while one != NULL:
            count += one.count
            one = one.next
        member.postings = <Posting *> zeroed(count, sizeof(Posting))
        one = required.first
        while one != NULL:
            for at in range(one.count):
                posting = &member.postings[member.postings_count]
                if self.index.add(one.place, required_value(one, at), number, &posting.postings):
                    posting.at = posting.postings.count - 1
                    member.postings_count += 1
                    self.note_postings(posting.postings, 1)
            one = one.next
        return 0

    cdef int unindex_member(self, uint32_t number) noexcept:
        cdef Member *member = &self.members[number]
        cdef Posting *posting
        cdef Posting *other
        cdef uint32_t at, moved
        for at in range(member.postings_count):
            posting = &member.postings[at]
            self.note_postings(posting.postings, -1)
            moved = self.index.remove(posting.postings, posting.at)
            if moved == NOBODY:
                continue
            other = self.members[moved].postings
            while other.postings != posting.postings:
                other += 1
            other.at = posting.at
        if not member.postings_count and member.at != NOBODY:
            self.unindexed_count -= 1
            moved = self.unindexed[self.unindexed_count]
            self.unindexed[member.at] = moved
            self.rejects[member.at] = self.rejects[self.unindexed_count]
            self.members[moved].at = member.at
        return 0

    cdef int note_postings(self, PostingList *postings, int change) noexcept:
        """Count a posting that was added (1), or will be removed (-1)."""
        cdef uint32_t place = postings.place & PLACE_MASK
        cdef uint32_t length = prefix_length(postings.place)
        cdef IndexedPlace *indexed = &self.indexed_places[place]
        cdef bint numeric = is_numeric(&postings.value)
        if length:
            indexed.prefixes += change
            indexed.lengths = indexed.lengths | <uint32_t> 1 << length if indexed.prefixes else 0
        else:
            if numeric:
                indexed.numbers += change
            else:
                indexed.texts += change
            if postings.count == 1:
                link_list(&indexed.lists[numeric], postings, change)
        if place < AT_HEADERS:
            self.indexed_properties &= ~(<uint32_t> 1 << place)
            if indexed.texts or indexed.numbers or indexed.prefixes:
                self.indexed_properties |= <uint32_t> 1 << place
        return 0

    # ------------------------------------------------------------------ asking

    cdef uint32_t match(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                        size_t properties_len) noexcept:
        """How many members a message passes; `matched` has their numbers."""
        cdef Asked asked = [names, properties, names_len, properties_len]
        self.matched_count = 0
        if not self.count:
            return 0
        self.limit = ALL
        begin_message(self, &asked)
        self.passed += self.matched_count
        return self.matched_count

    cdef uint32_t match_in_time(self, const uint8_t *names, size_t names_len,
                                const uint8_t *properties, size_t properties_len,
                                Clock clock) except? 0xffffffff:
        """The same within a slice; `unfinished` is what is left of it, or None."""
        cdef Asked asked = [names, properties, names_len, properties_len]
        cdef uint64_t steps = self.seen.work, evaluated = self.evaluated
        cdef uint32_t count
        self.matched_count = 0
        if self.unfinished is not None:
            self.unfinished = None
        if not self.count:
            return 0
        begin_slice(self, clock)
        if properties_len > LONG_BYTES:
            self.limit, self.is_over = 0, True  # all programs are left to `go_on`
        begin_message(self, &asked)
        count = self.matched_count
        self.passed += count
        clock.units += <uint32_t> ((self.seen.work - steps + PART_STEPS * (
            self.evaluated - evaluated)) // STEPS_A_UNIT)
        if not self.has_left:
            return count
        self.has_left = False
        self.unfinished = unfinished_match(self.message, self.left, self.size // 64 + 1)
        if properties_len > LONG_BYTES:
            count = self.go_on(self.unfinished, names, names_len, properties, properties_len, clock)
            if self.unfinished.is_done():
                self.unfinished = None
        return count

    cdef uint32_t go_on(self, UnfinishedMatch rest, const uint8_t *names, size_t names_len,
                        const uint8_t *properties, size_t properties_len,
                        Clock clock) except? 0xffffffff:
        """Ask more of the members that are left, in a slice; they are added to `matched`.

        Afterwards `rest` has none left, or the slice is over.
        """
        cdef Asked asked = [names, properties, names_len, properties_len]
        cdef uint32_t number, before = self.matched_count
        cdef uint64_t steps = self.seen.work
        begin_slice(self, clock)
        if see_message(self, &asked):
            rest.at = rest.words    # it was refused when it came
        try:
            while rest.next(&number):
                if self.members[number].since < rest.message:
                    if not self.ask_once_more(rest, number, &asked):
                        break
                rest.done_with(number)
        finally:
            forget_message(self)
            self.passed += self.matched_count - before
            clock.units += <uint32_t> ((self.seen.work - steps) // STEPS_A_UNIT)
        return self.matched_count

    cdef bint ask_once_more(self, UnfinishedMatch rest, uint32_t number,
                            const Asked *asked) except -1:
        """Ask a member that was left; returns False if it is left once more."""
        cdef const Member *member = &self.members[number]
        cdef const Part *part
        cdef int outcome = MATCH
        while rest.part < member.parts_count and outcome == MATCH:
            part = &member.parts[rest.part]
            if self.seen.work >= self.limit and slice_is_over(self):
                return False
            if part.kind == PART_PROGRAM:
                outcome = program_run_until(&part.code, &self.seen, self.limit,
                                            rest.results(part.code.count))
                if outcome == UNFINISHED:
                    outcome = MATCH         # until the part has an outcome
                    continue
            else:
                outcome = ask_part(self, part, asked)
                self.seen.work += PART_STEPS
            rest.part += 1
        self.evaluated += 1
        note_outcome(self, number, outcome)
        return True

    def ask(self, str exchange not None, str routing_key not None, bytes properties not None,
            Clock clock not None, numbers=None):
        """Ask members about a message, in a slice of time: (numbers of those it passes, the rest).

        The rest is for `ask_rest`; None: all were asked. `numbers` are the members that are asked;
        None: all of them. Some of those that pass may be gone before the next call.
        """
        cdef bytes names = short(exchange) + short(routing_key)
        cdef uint32_t number
        if numbers is None:
            self.match_in_time(<const uint8_t *> PyBytes_AS_STRING(names), PyBytes_GET_SIZE(names),
                               <const uint8_t *> PyBytes_AS_STRING(properties),
                               PyBytes_GET_SIZE(properties), clock)
            return self.numbers_matched(), self.unfinished
        self.asked += len(numbers)
        self.message += 1
        for number in numbers:
            self.left[number >> 6] |= <uint64_t> 1 << (number & 63)
        self.unfinished = unfinished_match(self.message, self.left, self.size // 64 + 1)
        return self.ask_rest(self.unfinished, exchange, routing_key, properties, clock)

    def ask_rest(self, UnfinishedMatch rest not None, str exchange not None,
                 str routing_key not None, bytes properties not None, Clock clock not None):
        """Go on with the same message: as `ask`."""
        cdef bytes names = short(exchange) + short(routing_key)
        self.matched_count = 0
        self.go_on(rest, <const uint8_t *> PyBytes_AS_STRING(names), PyBytes_GET_SIZE(names),
                   <const uint8_t *> PyBytes_AS_STRING(properties), PyBytes_GET_SIZE(properties),
                   clock)
        self.unfinished = None
        return self.numbers_matched(), None if rest.is_done() else rest

    cdef list numbers_matched(self):
        cdef uint32_t at
        return [self.matched[at] for at in range(self.matched_count)]

    def matching(self, str exchange not None, str routing_key not None, bytes properties not None):
        """The numbers of the members that a message passes; `properties` are encoded."""
        cdef bytes names = short(exchange) + short(routing_key)
        self.match(<const uint8_t *> PyBytes_AS_STRING(names), PyBytes_GET_SIZE(names),
                   <const uint8_t *> PyBytes_AS_STRING(properties), PyBytes_GET_SIZE(properties))
        return self.numbers_matched()

    def count_in(self, Window window not None):
        """How many members the messages of a window pass, all together."""
        cdef uint64_t count = 0
        cdef const uint8_t *p
        cdef const uint8_t *names
        cdef const Record *record
        cdef int at
        for at in range(window.count):
            p = window.stretches[at].start
            while p < window.stretches[at].end:
                record = <const Record *> p
                names = p + sizeof(Record) + record.targets * sizeof(Target)
                if record.kind == KIND_PUBLISH:
                    count += self.match(names, record.names_len, names + record.names_len,
                                        record.properties_len)
                p += record.size
        return count


cdef int link_list(PostingList **first, PostingList *postings, int change) noexcept:
    """Link a posting list that is new, or unlink one that loses its last member."""
    if change > 0:
        postings.before = NULL
        postings.after = first[0]
        if first[0] != NULL:
            first[0].before = postings
        first[0] = postings
        return 0
    if postings.after != NULL:
        postings.after.before = postings.before
    if postings.before != NULL:
        postings.before.after = postings.after
    else:
        first[0] = postings.after
    return 0


# ---------------------------------------------------------------------- asking about a message

cdef Instruction GET_DELIVERY_MODE = [OP_DELIVERY_MODE, 0, 0]
cdef Instruction GET_MILLISECONDS = [OP_MILLISECONDS, 0, 0]


cdef int see_headers(SelectorSet s, const uint8_t *p, const uint8_t *end) noexcept:
    """Note the values of headers that a member uses; the first header of a name counts."""
    cdef uint32_t left = s.names.count, name
    cdef Field field
    while p < end and left:
        if next_field(&p, end, &field):
            return MALFORMED
        if not s.names.lengths >> (field.length & 63) & 1:
            continue
        name = s.names.find(field.name, field.length)
        if name == NO_NAME or s.found[AT_HEADERS + name]:
            continue
        set_field(&s.values[AT_HEADERS + name], field.type, field.content, field.size)
        s.found[AT_HEADERS + name] = 1
        s.touched[s.touched_count] = <uint16_t> name
        s.touched_count += 1
        left -= 1
    return 0


cdef int see_message(SelectorSet s, const Asked *asked) noexcept:
    cdef Instruction get_tag
    cdef const uint8_t *headers = NULL
    cdef const uint8_t *end = NULL
    cdef Operand *v = s.values
    if see_names(asked.names, asked.names_len, v):
        return MALFORMED
    if s.wanted and see_properties(s.wanted, asked.properties, asked.properties_len, v,
                                   &headers, &end):
        return MALFORMED
    if headers != NULL and see_headers(s, headers, end):
        return MALFORMED
    if s.uses[<int> AT_TAG]:
        get_tag.opcode, get_tag.count, get_tag.operand = OP_TAG, <uint8_t> s.tags[1], s.tags[0]
        push(NULL, &get_tag, v, &v[<int> AT_TAG])
    if s.uses[<int> AT_DELIVERY_MODE]:
        push(NULL, &GET_DELIVERY_MODE, v, &v[<int> AT_DELIVERY_MODE])
    if s.uses[<int> AT_MILLISECONDS]:
        push(NULL, &GET_MILLISECONDS, v, &v[<int> AT_MILLISECONDS])
    return 0


cdef int forget_message(SelectorSet s) noexcept:
    cdef uint32_t place
    for place in range(AT_HEADERS):
        set_nothing(&s.values[place])
    while s.touched_count:
        s.touched_count -= 1
        place = AT_HEADERS + s.touched[s.touched_count]
        set_nothing(&s.values[place])
        s.found[place] = 0
    return 0


cdef inline void begin_slice(SelectorSet s, Clock clock) noexcept:
    if s.clock is not clock:
        s.clock = clock
    s.is_over = False
    s.limit = s.seen.work + STEPS


cdef bint slice_is_over(SelectorSet s) noexcept:
    """Whether what takes long is left for later; read only after `STEPS` steps."""
    if not s.is_over:
        s.is_over = s.clock.over()
        s.limit = 0 if s.is_over else s.seen.work + STEPS
    return s.is_over


cdef int ask_part(SelectorSet s, const Part *part, const Asked *asked) noexcept:
    if part.kind == PART_CONJUNCTS:
        return conjuncts_hold(&part.code, part.conjuncts, part.count, s.values)
    if s.seen.work >= s.limit and slice_is_over(s):
        return UNFINISHED
    if part.kind == PART_PROGRAM:
        return program_run(&part.code, &s.seen)
    if part.kind == PART_LONG:
        s.seen.work += PART_STEPS * part.count
        return conjuncts_hold(&part.code, part.conjuncts, part.count, s.values)
    s.seen.work += FILTER_STEPS + 2 * asked.properties_len     # it walks over the headers
    return (<Filter> part.filter).matches(asked.names, asked.names_len, asked.properties,
                                          asked.properties_len)


cdef inline int note_outcome(SelectorSet s, uint32_t number, int outcome) noexcept:
    if outcome == NO_MATCH:
        return 0
    if outcome == MATCH:
        s.passing[s.matched_count] = number
        s.matched_count += 1
    elif outcome == TYPE_ERROR:
        s.failed += 1
        add_relaxed(s.members[number].errors, 1, RELAXED)
    else:
        s.evaluated -= 1            # it will be
        s.left[number >> 6] |= <uint64_t> 1 << (number & 63)
        s.has_left = True
    return 0


cdef inline int begin_message(SelectorSet s, const Asked *asked) noexcept:
    """Ask all members about a message; those that there is no time for are `left`."""
    s.asked += s.count
    s.message += 1
    if see_message(s, asked):
        s.failed += 1
    else:
        ask_members(s, asked)
    return forget_message(s)


cdef inline int ask_member(SelectorSet s, uint32_t number, const Asked *asked) noexcept:
    cdef const Member *member = &s.members[number]
    cdef int outcome = MATCH
    cdef uint32_t at
    s.evaluated += 1
    for at in range(member.parts_count):
        outcome = ask_part(s, &member.parts[at], asked)
        if outcome != MATCH:
            break
    return note_outcome(s, number, outcome)


cdef inline int ask_list(SelectorSet s, const PostingList *postings, const Asked *asked) noexcept:
    """Ask the members of a posting list that were not asked about this message; NULL has none."""
    cdef Member *member
    cdef uint32_t at
    if postings == NULL:
        return 0
    for at in range(postings.count):
        member = &s.members[postings.members[at]]
        if member.message != s.message:
            member.message = s.message
            ask_member(s, postings.members[at], asked)
    return 0


cdef int ask_all_in(SelectorSet s, uint32_t place, bint numeric, const Asked *asked) noexcept:
    """Ask all members that are indexed in a place, by numbers or by texts."""
    cdef const PostingList *postings = s.indexed_places[place].lists[numeric]
    while postings != NULL:
        ask_list(s, postings, asked)
        postings = postings.after
    return 0


cdef int ask_indexed(SelectorSet s, uint32_t place, const Asked *asked) noexcept:
    """Ask the members that are indexed under the message's value in a place."""
    cdef const Operand *v = &s.values[place]
    cdef const IndexedPlace *indexed = &s.indexed_places[place]
    cdef uint32_t lengths = indexed.lengths
    cdef Operand prefix
    if v.kind == NOTHING:
        return 0
    if indexed.texts:
        if v.kind == TEXT_VALUE:
            ask_list(s, s.index.find(place, v), asked)
        else:
            ask_all_in(s, place, False, asked)
    if indexed.numbers:
        if is_numeric(v):
            ask_list(s, s.index.find(place, v), asked)
        else:
            ask_all_in(s, place, True, asked)
    if not lengths or v.kind != TEXT_VALUE:  # any other value has no prefix
        return 0
    prefix = v[0]
    while lengths:
        prefix.length = <uint32_t> lowest_bit(lengths)
        if prefix.length > v.length:
            break
        ask_list(s, s.index.find(with_prefix(place, prefix.length), &prefix), asked)
        lengths &= lengths - 1
    return 0


cdef int ask_members(SelectorSet s, const Asked *asked) noexcept:
    cdef uint32_t properties = s.indexed_properties, at
    cdef const QuickReject *rejects = s.rejects
    cdef const Operand *values = s.values
    cdef uint64_t rejected = 0
    while properties:
        ask_indexed(s, <uint32_t> lowest_bit(properties), asked)
        properties &= properties - 1
    for at in range(s.touched_count):
        ask_indexed(s, AT_HEADERS + s.touched[at], asked)
    for at in range(s.unindexed_count):
        if is_rejected(&rejects[at], values):
            rejected += 1
        else:
            ask_member(s, s.unindexed[at], asked)
    s.evaluated += rejected
    return 0
