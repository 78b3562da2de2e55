"""Record batches: from columns to bytes and back."""
