//! Names and paths that an entry of a manifest may have.

use penstock_proto::name;
use penstock_proto::name::OwnKind;

use crate::dir::Dir;
use crate::error::StoreError;

/// Checks a path of items: relative, sound, and not one of our private names.
pub(crate) fn check_item_path(path: &[u8]) -> Result<(), StoreError> {
    let ours = |part: &[u8]| name::own(part).is_some();
    if name::check_relative(path).is_ok() && !path.split(|&byte| byte == b'/').any(ours) {
        Ok(())
    } else {
        Err(StoreError::bad_path(path))
    }
}

/// Checks the name of an item or temporary file within `dir`.
pub(crate) fn check_item_name(dir: &Dir, item: &[u8]) -> Result<(), StoreError> {
    let kind = name::own(item).map(|own| own.kind);
    let private = matches!(kind, Some(OwnKind::Run | OwnKind::Store));
    if name::is_component(item) && !private {
        Ok(())
    } else {
        Err(StoreError::bad_path(&name::join(dir.path(), item)))
    }
}
