//! The layout of C's structs as compiled: the names, offsets and sizes of their members, read from DWARF.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use gimli::{AttributeValue, DebuggingInformationEntry, Dwarf, EndianSlice, LittleEndian, UnitOffset};
use object::{Object, ObjectSection};

type Reader<'data> = EndianSlice<'data, LittleEndian>;
type Unit<'data> = gimli::Unit<Reader<'data>>;

/// A struct with its members in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Struct {
    pub(crate) size: u64,
    pub(crate) members: Vec<Member>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// The members of the member, if it is a struct.
    pub(crate) inner: Vec<String>,
}

impl Struct {
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.name.as_str())
    }

    pub(crate) fn member(&self, name: &str) -> &Member {
        self.members.iter().find(|member| member.name == name).unwrap_or_else(|| panic!("no member {name}"))
    }
}

/// Returns the structs of a shared object, by the names of their types and by their tags.
pub(crate) fn structs(path: &Path) -> HashMap<String, Struct> {
    let bytes = std::fs::read(path).expect("the compiler has written it");
    let file = object::File::parse(&*bytes).expect("it is an object");
    let section = |id: gimli::SectionId| -> Result<Cow<'_, [u8]>, gimli::Error> {
        let section = file.section_by_name(id.name());
        Ok(section.map_or(Cow::Borrowed(&[][..]), |found| {
            Cow::Borrowed(found.data().expect("it is not compressed"))
        }))
    };
    let sections = gimli::DwarfSections::load(section).expect("its sections can be read");
    let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    let mut found = HashMap::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next().expect("a unit") {
        let unit = dwarf.unit(header).expect("a unit");
        Types::of(&dwarf, &unit).name_structs(&mut found);
    }
    found
}

/// A C type, reduced to its size and its members.
enum Kind {
    /// A type with a size, with or without members.
    Whole {
        size: u64,
        members: Vec<(String, u64, Option<UnitOffset>)>,
    },
    /// Another name, or a qualifier.
    Same(Option<UnitOffset>),
    Array {
        element: Option<UnitOffset>,
        count: u64,
    },
}

struct Types {
    kinds: HashMap<UnitOffset, Kind>,
    names: Vec<(String, UnitOffset)>,
}

impl Types {
    fn of(dwarf: &Dwarf<Reader<'_>>, unit: &Unit<'_>) -> Types {
        let mut types = Types { kinds: HashMap::new(), names: Vec::new() };
        // The structs and arrays around the current entry, with their depths.
        let mut inside: Vec<(isize, UnitOffset)> = Vec::new();
        let mut cursor = unit.entries();
        while let Some(entry) = cursor.next_dfs().expect("an entry") {
            let depth = entry.depth();
            while inside.last().is_some_and(|(outer, _)| *outer >= depth) {
                inside.pop();
            }
            let parent = inside.last().filter(|(outer, _)| outer + 1 == depth).map(|(_, offset)| *offset);
            if types.take(dwarf, unit, entry, parent) {
                inside.push((depth, entry.offset()));
            }
        }
        types
    }

    /// Returns whether the entry's children belong to it.
    fn take(
        &mut self,
        dwarf: &Dwarf<Reader<'_>>,
        unit: &Unit<'_>,
        entry: &DebuggingInformationEntry<Reader<'_>>,
        parent: Option<UnitOffset>,
    ) -> bool {
        let number = |name| entry.attr_value(name).and_then(|value| value.udata_value());
        let to = match entry.attr_value(gimli::DW_AT_type) {
            Some(AttributeValue::UnitRef(offset)) => Some(offset),
            _ => None,
        };
        let name = entry
            .attr_value(gimli::DW_AT_name)
            .map(|value| dwarf.attr_string(unit, value).expect("a name").to_string_lossy().into_owned());
        let whole = |size| Kind::Whole { size, members: Vec::new() };
        let is_type = match entry.tag() {
            gimli::DW_TAG_structure_type | gimli::DW_TAG_union_type => {
                number(gimli::DW_AT_byte_size).map(whole)
            }
            gimli::DW_TAG_base_type | gimli::DW_TAG_enumeration_type => {
                number(gimli::DW_AT_byte_size).map(whole)
            }
            gimli::DW_TAG_pointer_type => Some(whole(8)),
            gimli::DW_TAG_array_type => Some(Kind::Array { element: to, count: 1 }),
            gimli::DW_TAG_subrange_type => {
                let above = number(gimli::DW_AT_upper_bound).map(|bound| bound.wrapping_add(1));
                let length = number(gimli::DW_AT_count).or(above).unwrap_or(0);
                if let Some(Kind::Array { count, .. }) = parent.and_then(|parent| self.kinds.get_mut(&parent))
                {
                    *count *= length;
                }
                None
            }
            gimli::DW_TAG_member => {
                let at = number(gimli::DW_AT_data_member_location).unwrap_or(0);
                if let Some(Kind::Whole { members, .. }) =
                    parent.and_then(|parent| self.kinds.get_mut(&parent))
                {
                    members.push((name.clone().unwrap_or_default(), at, to));
                }
                None
            }
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type => Some(Kind::Same(to)),
            _ => None,
        };
        let Some(kind) = is_type else { return false };
        let (gimli::DW_TAG_typedef | gimli::DW_TAG_structure_type, Some(name)) = (entry.tag(), name) else {
            self.kinds.insert(entry.offset(), kind);
            return true;
        };
        self.kinds.insert(entry.offset(), kind);
        self.names.push((name, entry.offset()));
        true
    }

    fn bare(&self, mut at: Option<UnitOffset>) -> Option<&Kind> {
        loop {
            match self.kinds.get(&at?)? {
                Kind::Same(to) => at = *to,
                kind => return Some(kind),
            }
        }
    }

    fn size(&self, at: Option<UnitOffset>) -> u64 {
        match self.bare(at) {
            Some(Kind::Whole { size, .. }) => *size,
            Some(Kind::Array { element, count }) => self.size(*element) * count,
            Some(Kind::Same(_)) | None => 0,
        }
    }

    fn name_structs(&self, found: &mut HashMap<String, Struct>) {
        for (name, offset) in &self.names {
            let Some(Kind::Whole { size, members }) = self.bare(Some(*offset)) else { continue };
            if members.is_empty() {
                continue;
            }
            let members = members.iter().map(|(name, at, to)| Member {
                name: name.clone(),
                offset: *at,
                size: self.size(*to),
                inner: match self.bare(*to) {
                    Some(Kind::Whole { members, .. }) => {
                        members.iter().map(|inner| inner.0.clone()).collect()
                    }
                    _ => Vec::new(),
                },
            });
            found.insert(name.clone(), Struct { size: *size, members: members.collect() });
        }
    }
}
