//! The units of a module's debug information and the entries in them, wherever they lie: in the
//! module's own file, in dwz's, or in split ones.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use gimli::{
    AttributeValue, DW_AT_abstract_origin, DW_AT_language, DW_AT_name, DW_AT_specification,
    DW_AT_type, DebuggingInformationEntry, DwAt, DwLang, DwTag, Reader, UnitOffset, UnitType,
};

use crate::dwarf::{Bytes, Debug, Dwarf};

/// Limit on a chain of references between entries.
const MOST_ORIGINS: usize = 8;

/// One unit, with its sections.
pub(crate) struct Unit {
    pub(crate) dwarf: Arc<Dwarf>,
    pub(crate) unit: gimli::Unit<Bytes>,
    pub(crate) language: DwLang,
}

/// One entry.
#[derive(Clone)]
pub(crate) struct Die {
    pub(crate) unit: Rc<Unit>,
    pub(crate) at: UnitOffset<usize>,
}

/// All units.
pub(crate) struct Units {
    /// Those of the module's own sections, with split ones in place of their skeletons.
    pub(crate) own: Vec<Rc<Unit>>,
    /// Code of these units: first address, one behind the last, index in `own`.
    code: Vec<(u64, u64, usize)>,
    /// All units by their sections and their offset in them.
    by_offset: BTreeMap<(usize, usize), Rc<Unit>>,
    /// Types that have units of their own, by signature.
    types: HashMap<u64, Die>,
}

impl Units {
    pub(crate) fn of(debug: &Debug) -> Self {
        let mut all = Self {
            own: Vec::new(),
            code: Vec::new(),
            by_offset: BTreeMap::new(),
            types: HashMap::new(),
        };
        let dwarf = &debug.dwarf;
        for unit in units(dwarf) {
            let mut ranges = dwarf.unit_ranges(&unit).ok();
            let before = all.own.len();
            let mut code = Vec::new();
            while let Some(Ok(Some(range))) = ranges.as_mut().map(gimli::RangeIter::next) {
                code.push((range.begin, range.end, before));
            }
            match debug.split_of(dwarf, &unit) {
                Some(split) => all.add_split(&split, &unit),
                None => {
                    let unit = all.add(dwarf, unit);
                    all.own.push(unit);
                }
            }
            if all.own.len() > before {
                all.code.append(&mut code);
            }
        }
        for unit in dwarf.sup().map(units).into_iter().flatten() {
            // The supplement has its own strings and references.
            if let Some(sup) = &dwarf.sup {
                all.add(sup, unit);
            }
        }
        all.add_types(dwarf);
        all
    }

    fn add(&mut self, dwarf: &Arc<Dwarf>, unit: gimli::Unit<Bytes>) -> Rc<Unit> {
        let offset = unit.header.debug_info_offset();
        let unit = Rc::new(Unit::new(dwarf, unit));
        if let UnitType::Type {
            type_signature,
            type_offset,
        }
        | UnitType::SplitType {
            type_signature,
            type_offset,
        } = unit.unit.header.type_()
        {
            let die = Die {
                unit: Rc::clone(&unit),
                at: type_offset,
            };
            self.types.insert(type_signature.0, die);
        }
        if let Some(offset) = offset {
            let key = (key(dwarf), offset.0);
            self.by_offset.insert(key, Rc::clone(&unit));
        }
        unit
    }

    fn add_split(&mut self, split: &Arc<Dwarf>, skeleton: &gimli::Unit<Bytes>) {
        let before = self.own.len();
        for mut unit in units(split) {
            unit.copy_relocated_attributes(skeleton);
            let whole = unit.dwo_id == skeleton.dwo_id;
            let unit = self.add(split, unit);
            if whole && self.own.len() == before {
                self.own.push(unit);
            }
        }
        self.add_types(split);
    }

    /// Types in DWARF 4's section of their own.
    fn add_types(&mut self, dwarf: &Arc<Dwarf>) {
        let mut headers = dwarf.type_units();
        while let Ok(Some(header)) = headers.next() {
            if let Ok(unit) = dwarf.unit(header) {
                self.add(dwarf, unit);
            }
        }
    }

    /// The units whose code covers an address.
    pub(crate) fn at(&self, address: u64) -> impl Iterator<Item = &Rc<Unit>> {
        let inside = move |&&(from, to, _): &&(u64, u64, usize)| (from..to).contains(&address);
        let found = self.code.iter().filter(inside);
        found.filter_map(|&(_, _, index)| self.own.get(index))
    }

    /// The target of a reference in an entry of `from`.
    pub(crate) fn follow(&self, from: &Rc<Unit>, to: AttributeValue<Bytes>) -> Option<Die> {
        let in_section = |dwarf: &Arc<Dwarf>, offset: usize| {
            let key = key(dwarf);
            let (_, unit) = self.by_offset.range((key, 0)..=(key, offset)).next_back()?;
            let at = gimli::DebugInfoOffset(offset).to_unit_offset(&unit.unit.header)?;
            let unit = Rc::clone(unit);
            Some(Die { unit, at })
        };
        match to {
            AttributeValue::UnitRef(at) => Some(Die {
                unit: Rc::clone(from),
                at,
            }),
            AttributeValue::DebugInfoRef(offset) => in_section(&from.dwarf, offset.0),
            AttributeValue::DebugInfoRefSup(offset) => {
                in_section(from.dwarf.sup.as_ref()?, offset.0)
            }
            AttributeValue::DebugTypesRef(signature) => self.types.get(&signature.0).cloned(),
            _ => None,
        }
    }

    /// An attribute of an entry, or of its origin.
    pub(crate) fn attribute(
        &self,
        die: &Die,
        name: DwAt,
    ) -> Option<(Rc<Unit>, AttributeValue<Bytes>)> {
        let mut at = die.clone();
        for _ in 0..MOST_ORIGINS {
            let entry = at.entry()?;
            if let Some(value) = entry.attr_value(name) {
                return Some((at.unit, value));
            }
            at = self.origin(&at.unit, &entry)?;
        }
        None
    }

    /// The origin of an entry: of an inlined or moved one, or its declaration.
    pub(crate) fn origin(
        &self,
        unit: &Rc<Unit>,
        entry: &DebuggingInformationEntry<Bytes>,
    ) -> Option<Die> {
        let origin = entry.attr_value(DW_AT_abstract_origin);
        self.follow(
            unit,
            origin.or_else(|| entry.attr_value(DW_AT_specification))?,
        )
    }

    /// The name of an entry.
    pub(crate) fn name(&self, die: &Die) -> Option<String> {
        let (unit, value) = self.attribute(die, DW_AT_name)?;
        unit.text(value)
    }

    /// The type of an entry; `None` is void.
    pub(crate) fn type_of(&self, die: &Die) -> Option<Die> {
        let (unit, value) = self.attribute(die, DW_AT_type)?;
        self.follow(&unit, value)
    }
}

impl Unit {
    fn new(dwarf: &Arc<Dwarf>, unit: gimli::Unit<Bytes>) -> Self {
        let root = unit.entry(unit.header.root_offset()).ok();
        let language = root.and_then(|root| match root.attr_value(DW_AT_language)? {
            AttributeValue::Language(language) => Some(language),
            _ => None,
        });
        Self {
            dwarf: Arc::clone(dwarf),
            language: language.unwrap_or(gimli::DW_LANG_C),
            unit,
        }
    }

    /// A string.
    pub(crate) fn text(&self, value: AttributeValue<Bytes>) -> Option<String> {
        let bytes = self.dwarf.attr_string(&self.unit, value).ok()?;
        Some(bytes.to_string_lossy().ok()?.into_owned())
    }

    /// The path of its source, as given to the compiler.
    pub(crate) fn source(&self) -> String {
        let name = self
            .unit
            .name
            .as_ref()
            .and_then(|n| n.to_string_lossy().ok());
        name.map(|name| name.into_owned()).unwrap_or_default()
    }
}

impl Die {
    pub(crate) fn entry(&self) -> Option<DebuggingInformationEntry<Bytes>> {
        self.unit.unit.entry(self.at).ok()
    }

    pub(crate) fn attr(&self, name: DwAt) -> Option<AttributeValue<Bytes>> {
        self.entry()?.attr_value(name)
    }

    /// A number, if it is a constant.
    pub(crate) fn number(&self, name: DwAt) -> Option<u64> {
        let value = self.attr(name)?;
        value
            .udata_value()
            .or_else(|| value.sdata_value().map(i64::cast_unsigned))
    }

    pub(crate) fn tag(&self) -> Option<DwTag> {
        Some(self.entry()?.tag())
    }

    /// The direct children of this entry.
    pub(crate) fn children(&self) -> Vec<(Self, DwTag)> {
        let mut all = Vec::new();
        let Ok(mut tree) = self.unit.unit.entries_tree(Some(self.at)) else {
            return all;
        };
        let Ok(root) = tree.root() else { return all };
        let mut children = root.children();
        while let Ok(Some(child)) = children.next() {
            let entry = child.entry();
            let die = Self {
                unit: Rc::clone(&self.unit),
                at: entry.offset(),
            };
            all.push((die, entry.tag()));
        }
        all
    }
}

/// Identifies the sections of an offset.
fn key(dwarf: &Arc<Dwarf>) -> usize {
    Arc::as_ptr(dwarf) as usize
}

fn units(dwarf: &Dwarf) -> impl Iterator<Item = gimli::Unit<Bytes>> {
    let mut headers = dwarf.units();
    std::iter::from_fn(move || headers.next().ok().flatten())
        .filter_map(|header| dwarf.unit(header).ok())
}
